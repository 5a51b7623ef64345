// Draws the figures of a page. Pages may hold hundreds: each is drawn when it comes into view.
(function () {
  "use strict";
  const config = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false,
    typesetMath: false,
    plotlyServerURL: "",
    topojsonURL: "",
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
  };
  const places = [...document.querySelectorAll("[data-plot]")];

  function draw(place) {
    if (!place.dataset.plot) return;
    const figure = JSON.parse(place.dataset.plot);
    delete place.dataset.plot;
    Plotly.newPlot(place, figure.data, figure.layout, config);
  }

  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          watch.unobserve(entry.target);
          draw(entry.target);
        }
      }
    },
    { rootMargin: "400px" },
  );
  places.forEach((place) => watch.observe(place));
  window.addEventListener("beforeprint", () => places.forEach(draw));
})();
