// Runs Python with the files that the page has loaded: nothing is requested here, and the policy of the page, which
// a worker from a blob inherits, would not allow it.

/** Where the loader of Pyodide believes its files to be. */
const PLACE = "https://python.invalid/";
const PACKAGES = "/packages";

let python;
let answers;
let mounted = 0;

self.onmessage = async ({ data }) => {
  try {
    if (data.start) await start(data.start);
    else ask(data.ask);
  } catch (error) {
    self.postMessage({ failed: error?.message ? `${error.name ?? "Error"}: ${error.message}` : String(error) });
  }
};

async function start({ loader, module, files, packages }) {
  const fetched = self.fetch;
  self.fetch = (asked, ...rest) => {
    const address = String(asked?.url ?? asked);
    const file = address.startsWith(PLACE) ? files[address.slice(PLACE.length)] : null;
    return file ? Promise.resolve(new Response(file, { headers: { "content-type": typeOf(address) } })) : fetched(asked, ...rest);
  };
  // It defines a function, which is to be global.
  await importText(`${await files[module].text()}\n;globalThis._createPyodideModule = _createPyodideModule;`, module);
  const { loadPyodide } = await importText(await files[loader].text(), loader);
  say("Starting Python");
  python = await loadPyodide({
    indexURL: PLACE,
    env: { HOME: "/home/pyodide", PYTHONDONTWRITEBYTECODE: "1" },
  });
  say("Loading coremlscope");
  for (const name of packages) python.unpackArchive(await files[name].arrayBuffer(), "zip", { extractDir: PACKAGES });
  python.runPython(`import gc, sys; sys.path.insert(0, "${PACKAGES}"); gc.set_threshold(100_000, 50, 50)`);
  answers = python.pyimport("coremlscope.server.browser").Answers(say);
  self.postMessage({ ready: true });
}

/** Answers a question on files, which Python reads through their handles: nothing is copied. */
function ask({ id, drop, files, chips, paths }) {
  const folder = `/dropped/${drop}`;
  if (drop !== mounted) {
    if (mounted) python.FS.unmount(`/dropped/${mounted}`);
    python.FS.mkdirTree(folder);
    const blobs = files.map(({ path, file }) => ({ name: path, data: file }));
    python.FS.mount(python.FS.filesystems.WORKERFS, { blobs }, folder);
    mounted = drop;
  }
  const answer = answers.answer(JSON.stringify({ folder, paths, chips }));
  self.postMessage({ id, answer, heapBytes: python._module.HEAPU8.length });
}

const say = (progress) => self.postMessage({ progress });

const typeOf = (name) =>
  name.endsWith(".wasm") ? "application/wasm" : name.endsWith(".json") ? "application/json" : "application/octet-stream";

async function importText(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(address);
  } catch (error) {
    throw new Error(`${name}: ${error?.message ?? error}`);
  } finally {
    URL.revokeObjectURL(address);
  }
}
