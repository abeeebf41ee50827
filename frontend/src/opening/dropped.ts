/** What a person dropped or chose together: files with their paths, folders included. */
export interface Dropped {
  id: number;
  /** The names of what was dropped itself. */
  names: string[];
  files: { path: string; file: Blob }[];
}

let last = 0;

export function droppedOf(files: { path: string; file: Blob }[]): Dropped {
  const names = [...new Set(files.map(({ path }) => path.split("/", 1)[0] ?? ""))];
  return { id: ++last, names, files };
}

/** Reads the folders of what was dropped; contents of files are not read. */
export async function readDrop(transfer: DataTransfer): Promise<Dropped> {
  // Entries are gone once the event is over, so all of them are taken at once.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const found = await Promise.all(entries.map((entry) => filesOf(entry)));
  return droppedOf(found.flat());
}

/** The files of an input, which has the paths of those of a folder. */
export const readChosen = (files: FileList): Dropped =>
  droppedOf([...files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));

async function filesOf(entry: FileSystemEntry): Promise<Dropped["files"]> {
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Dropped["files"] = [];
  for (;;) {
    // Some of the entries; none at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    found.push(...(await Promise.all(some.map((one) => filesOf(one)))).flat());
  }
}
