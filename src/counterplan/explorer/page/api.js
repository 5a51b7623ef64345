// Questions to the server.

/** The server has said why not, in one line. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export async function get(path, query = {}, signal = undefined) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) given.append(name, one);
  }
  const text = given.toString();
  return answer(`api/${path}${text ? `?${text}` : ""}`, { signal });
}

export async function post(path, body, signal = undefined) {
  const headers = { "content-type": "application/json" };
  return answer(`api/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** Also while the page is being closed. */
export async function remove(path) {
  return answer(`api/${path}`, { method: "DELETE", keepalive: true });
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(0, "The server does not answer. Is it still running?");
  }
  const text = await response.text();
  let content = null;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Refused(response.status, "The server's answer cannot be read.");
  }
  if (!response.ok) throw new Refused(response.status, content.error || response.statusText);
  return content;
}

/** Whether someone has only lost interest in the answer. */
export function isDropped(problem) {
  return problem.name === "AbortError";
}

// How often to ask how far a job is.
const PAUSE = 250;

/** A job until it is over; `tell` is called with how far it is. The job is cancelled if `signal` is
 * given up or the page is closed. */
export async function finished(question, tell, signal) {
  signal.throwIfAborted();
  // The page names the job: it can be cancelled before the server has answered at all.
  const name = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const drop = () => remove(`jobs/${name}`).catch(() => {});
  signal.addEventListener("abort", drop);
  addEventListener("pagehide", drop);
  try {
    let job = await post("jobs", { ...question, job: name });
    while (job.state === "queued" || job.state === "running") {
      tell(job);
      await new Promise((done) => setTimeout(done, PAUSE));
      signal.throwIfAborted();
      job = await get(`jobs/${name}`, {}, signal);
    }
    signal.throwIfAborted();
    return job;
  } finally {
    signal.removeEventListener("abort", drop);
    removeEventListener("pagehide", drop);
  }
}
