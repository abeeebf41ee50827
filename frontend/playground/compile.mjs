// Replaces the Python sources in archives by their bytecode, with the very Python that will run it: a browser then
// compiles nothing. Arguments: the folder of Pyodide, the name of its loader, and the archives.
import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, loader, ...archives] = process.argv.slice(2);
const place = `${resolve(folder)}/`;
const { loadPyodide } = await import(pathToFileURL(place + loader));
// Hashes that differ from run to run would give archives that differ.
const python = await loadPyodide({ indexURL: place, env: { PYTHONHASHSEED: "0" } });
for (const path of archives) {
  python.FS.writeFile("/sources.zip", await readFile(path));
  python.runPython(`
import importlib.util, marshal, zipfile

with zipfile.ZipFile("/sources.zip") as sources, zipfile.ZipFile("/compiled.zip", "w") as compiled:
    for name in sources.namelist():
        content = sources.read(name)
        if name.endswith(".py"):
            code = compile(content, name, "exec", dont_inherit=True)
            # A file that is never checked against its source.
            header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(content)
            name, content = name + "c", header + marshal.dumps(code)
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        compiled.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=9)
`);
  await writeFile(path, python.FS.readFile("/compiled.zip"));
}
