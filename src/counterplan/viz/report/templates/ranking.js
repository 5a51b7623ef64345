"use strict";
// Searches, sorts and turns over the table of cases. All texts go in as texts, never as markup.
(() => {
  const get = (name) => document.getElementById("ranking" + name);
  const table = get("");
  if (!table) return;
  const { headings, rows, page, short } = JSON.parse(get("-data").textContent);
  const ranked = rows.map((row, index) => ({ rank: index + 1, place: row[0], cells: row.slice(1) }));
  // What a search looks through: every text of a row.
  const textOf = (cell, kind) => kind === "number" ? cell[1] : kind === "changes" ? cell.join(" ") : cell;
  for (const row of ranked) {
    row.text = row.cells.map((cell, i) => textOf(cell, headings[i][1])).join(" ").toLowerCase();
  }
  let shown = ranked, sorted = null, falling = false, start = 0;
  const chosen = new Map();

  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  // Short texts stay on one line.
  const shortness = (text) => text.length <= short ? "short" : "";

  const cellOf = (row, i) => {
    const kind = headings[i][1], cell = row.cells[i];
    if (kind === "number") return make("td", cell[1], "number");
    if (kind === "changes") {
      const made = make("td", undefined, "changes");
      for (const text of cell) made.append(make("div", text));
      return made;
    }
    if (kind === "name") {
      const made = make("td", row.place ? undefined : cell, `name ${shortness(cell)}`.trim());
      if (row.place) {
        const link = make("a", cell);
        link.href = "#" + row.place;
        made.append(link);
      }
      return made;
    }
    return make("td", cell, shortness(cell));
  };

  const draw = () => {
    const body = make("tbody");
    const end = Math.min(start + page, shown.length);
    for (const row of shown.slice(start, end)) {
      const line = make("tr");
      line.append(make("td", row.rank, "number"), ...headings.map((_, i) => cellOf(row, i)));
      body.append(line);
    }
    table.tBodies[0].replaceWith(body);
    const of = shown.length < ranked.length ? ` (of ${ranked.length.toLocaleString("en")})` : "";
    get("-status").textContent = shown.length
      ? `${(start + 1).toLocaleString("en")}–${end.toLocaleString("en")} of ${shown.length.toLocaleString("en")}${of}`
      : `nothing found${of}`;
    get("-previous").disabled = start === 0;
    get("-next").disabled = end >= shown.length;
  };

  const valueOf = (row) => {
    if (sorted === -1) return row.rank;
    const cell = row.cells[sorted], kind = headings[sorted][1];
    return kind === "number" ? cell[0] : kind === "changes" ? cell.length : cell;
  };

  const compare = (a, b) => {
    const x = valueOf(a), y = valueOf(b);
    if (x === y) return a.rank - b.rank;
    if (x === null || y === null) return x === null ? 1 : -1;  // what is not known comes last
    const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (falling ? -order : order) || a.rank - b.rank;
  };

  const update = () => {
    const words = get("-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = ranked.filter((row) => words.every((word) => row.text.includes(word))
      && [...chosen].every(([i, text]) => !text || row.cells[i] === text));
    shown.sort(compare);
    start = 0;
    draw();
  };

  const sortBy = (i) => {
    // Numbers begin with the largest, texts with the first; again turns it round.
    falling = i === sorted ? !falling : i >= 0 && (headings[i][1] === "number" || headings[i][1] === "changes");
    sorted = i;
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      head.setAttribute("aria-sort", place - 1 !== i ? "none" : falling ? "descending" : "ascending");
    });
    update();
  };

  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = make("button", head.textContent);
    button.type = "button";
    button.title = "sort by this column";
    button.addEventListener("click", () => sortBy(place - 1));
    // Browsers leave buttons out of headings that they repeat on paper.
    head.replaceChildren(button, make("span", head.textContent, "paper"));
  });
  headings.forEach(([title, , choose], i) => {
    if (!choose) return;
    const texts = [...new Set(ranked.map((row) => row.cells[i]))].sort();
    if (texts.length < 2) return;
    const label = make("label", title + " "), list = make("select");
    list.append(new Option("all", ""), ...texts.filter(Boolean).map((text) => new Option(text, text)));
    list.addEventListener("change", () => { chosen.set(i, list.value); update(); });
    label.append(list);
    get("-search").parentElement.after(label);
  });
  get("-search").addEventListener("input", update);
  get("-previous").addEventListener("click", () => { start = Math.max(0, start - page); draw(); });
  get("-next").addEventListener("click", () => { start += page; draw(); });
  get("-controls").hidden = false;
  sortBy(-1);
})();
