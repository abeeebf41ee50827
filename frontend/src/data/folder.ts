import { type FolderFile, zip } from "./zip";

/** Packages and their parts that a browser shows as folders. */
const PACKAGE = /\.(mlpackage|mlmodelc|mlperf)$/i;
const MOST_FILES = 2000;

/** What is sent to the server: a file, or the archive of a folder. */
export interface Sent {
  name: string;
  content: Blob;
}

/** Reads what was dropped: a file as it is, a package as an archive. */
export async function readDropped(transfer: DataTransfer): Promise<Sent | undefined> {
  const entry = transfer.items[0]?.webkitGetAsEntry?.();
  if (!entry?.isDirectory) {
    const file = transfer.files[0];
    return file && { name: file.name, content: file };
  }
  const files: FolderFile[] = [];
  await collect(entry as FileSystemDirectoryEntry, `${entry.name}/`, files);
  return archive(entry.name, files);
}

/** Reads a folder that was chosen: its files have paths that begin with its name. */
export async function readChosen(list: Iterable<File>): Promise<Sent | undefined> {
  const files = [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  const name = files[0]?.path.split("/")[0];
  return name === undefined ? undefined : archive(name, files);
}

async function archive(name: string, files: readonly FolderFile[]): Promise<Sent> {
  if (!PACKAGE.test(name)) throw new Error(`${name} is a folder, but not a .mlpackage, .mlmodelc or .mlperf.`);
  if (!files.length) throw new Error(`${name} is an empty folder.`);
  const kept = files.filter(({ path }) => !path.endsWith("/.DS_Store"));
  return { name: `${name}.zip`, content: await zip(kept) };
}

async function collect(folder: FileSystemDirectoryEntry, path: string, found: FolderFile[]): Promise<void> {
  const reader = folder.createReader();
  for (;;) {
    // A reader gives at most a hundred entries at a time.
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return;
    for (const entry of entries) {
      if (found.length >= MOST_FILES) throw new Error(`${path.split("/")[0]} has more than ${MOST_FILES} files.`);
      if (entry.isDirectory) await collect(entry as FileSystemDirectoryEntry, `${path}${entry.name}/`, found);
      else {
        const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
        found.push({ path: path + entry.name, file });
      }
    }
  }
}
