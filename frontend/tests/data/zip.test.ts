import { describe, expect, it } from "vitest";
import { readChosen } from "../../src/data/folder";
import { checksum, zip } from "../../src/data/zip";

describe("checksum", () => {
  it("is CRC-32", async () => {
    expect(await checksum(new Blob(["123456789"]))).toBe(0xcbf43926);
    expect(await checksum(new Blob([]))).toBe(0);
    expect(await checksum(new Blob(["a".repeat((1 << 20) + 1)]))).toBe(await checksum(new Blob(["a".repeat(1 << 20), "a"])));
  });
});

describe("zip", () => {
  it("stores files with their names, sizes and places", async () => {
    const file = new Blob(["123456789"]);
    const bytes = new DataView(
      await (
        await zip([
          { path: "a/b", file },
          { path: "c", file },
        ])
      ).arrayBuffer(),
    );
    const second = 30 + 3 + 9;
    expect([bytes.getUint32(0, true), bytes.getUint32(14, true), bytes.getUint32(18, true)]).toEqual([0x04034b50, 0xcbf43926, 9]);
    expect(bytes.getUint32(second, true)).toBe(0x04034b50);
    const directory = second + 30 + 1 + 9;
    expect(bytes.getUint32(directory, true)).toBe(0x02014b50);
    const last = directory + 46 + 3;
    expect([bytes.getUint32(last, true), bytes.getUint32(last + 42, true)]).toEqual([0x02014b50, second]);
    const end = last + 46 + 1;
    expect([bytes.getUint32(end, true), bytes.getUint16(end + 10, true), bytes.getUint32(end + 16, true)]).toEqual([
      0x06054b50,
      2,
      directory,
    ]);
    expect(bytes.byteLength).toBe(end + 22);
  });
});

describe("readChosen", () => {
  const file = (path: string) => Object.defineProperty(new File(["x"], "x"), "webkitRelativePath", { value: path });
  it("makes an archive of a package", async () => {
    expect((await readChosen([file("m.mlpackage/Manifest.json")]))?.name).toBe("m.mlpackage.zip");
    expect(await readChosen([])).toBeUndefined();
  });
  it("refuses other folders", async () => {
    await expect(readChosen([file("photos/a.jpg")])).rejects.toThrow("photos is a folder");
  });
});
