/** A file of a folder, with its path inside it. */
export interface FolderFile {
  path: string;
  file: Blob;
}

/** Bytes of a file that are held at a time while its checksum is computed. */
const CHUNK = 1 << 20;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});

/** The checksum of ZIP archives (CRC-32). */
export async function checksum(file: Blob): Promise<number> {
  let rest = 0xffffffff;
  for (let start = 0; start < file.size; start += CHUNK) {
    const bytes = new Uint8Array(await file.slice(start, start + CHUNK).arrayBuffer());
    for (const byte of bytes) rest = (TABLE[(rest ^ byte) & 0xff] ?? 0) ^ (rest >>> 8);
  }
  return (rest ^ 0xffffffff) >>> 0;
}

/** A ZIP archive of files that are stored as they are; their content stays on the disk until it is sent. */
export async function zip(files: readonly FolderFile[]): Promise<Blob> {
  const parts: (Blob | Uint8Array<ArrayBuffer>)[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const { path, file } of files) {
    const name = new TextEncoder().encode(path);
    const sum = await checksum(file);
    const common = [...u16(20, UTF8, 0, 0, DATE), ...u32(sum, file.size, file.size), ...u16(name.length, 0)];
    const head = Uint8Array.from([...u32(0x04034b50), ...common, ...name]);
    directory.push(Uint8Array.from([...u32(0x02014b50), ...u16(20), ...common, ...u16(0, 0, 0), ...u32(0, offset), ...name]));
    parts.push(head, file);
    offset += head.length + file.size;
  }
  const size = directory.reduce((sum, one) => sum + one.length, 0);
  const end = [...u32(0x06054b50), ...u16(0, 0, files.length, files.length), ...u32(size, offset), ...u16(0)];
  return new Blob([...parts, ...directory, Uint8Array.from(end)]);
}

/** The flag of names in UTF-8, and the first day that archives can name. */
const [UTF8, DATE] = [0x0800, 0x0021];

const u16 = (...numbers: number[]): number[] => numbers.flatMap((number) => [number & 0xff, (number >>> 8) & 0xff]);
const u32 = (...numbers: number[]): number[] => numbers.flatMap((number) => [...u16(number & 0xffff), ...u16(number >>> 16)]);
