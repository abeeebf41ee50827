import { describe, expect, it } from "vitest";
import { bytes, compactType, count, duration, fileArgument, fileName, fixed, moment, plural, rateInWords, share } from "../src/format";

describe("fixed", () => {
  it.each([
    [0.5, 0, "0"],
    [1.5, 0, "2"],
    [2.5, 0, "2"],
    [12.25, 1, "12.2"],
    [12.75, 1, "12.8"],
    [6.25, 1, "6.2"],
    [0.125, 2, "0.12"],
    [0.375, 2, "0.38"],
    [-2.5, 0, "-2"],
    [9.995, 2, "9.99"],
    [2.675, 2, "2.67"],
    [1.005, 2, "1.00"],
  ] as const)("%d with %d decimals is as in Python", (value, decimals, text) => expect(fixed(value, decimals)).toBe(text));

  it("gives page and terminal the same sizes and shares", () => {
    expect(bytes(12_250)).toBe("12.2 kB");
    expect(share(1 / 16)).toBe("6.2 %");
  });
});

describe("duration", () => {
  it.each([
    [0, "0 ns"],
    [2e-10, "<1 ns"],
    [6e-10, "1 ns"],
    [8.5e-7, "850 ns"],
    [1.234e-3, "1.23 ms"],
    [12.34e-6, "12.3 µs"],
    [4.5, "4.50 s"],
    [123.4, "123 s"],
  ])("%d s is %s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it("changes the unit where rounding would give 1000 of the smaller one", () => {
    expect(duration(0.9994e-3)).toBe("999 µs");
    expect(duration(0.9996e-3)).toBe("1.00 ms");
  });

  it("keeps three digits where rounding adds one", () => {
    expect(duration(9.994)).toBe("9.99 s");
    expect(duration(9.996)).toBe("10.0 s");
    expect(duration(99.96)).toBe("100 s");
  });

  it("writes negative differences with a minus sign", () => expect(duration(-2e-3)).toBe("−2.00 ms"));
});

describe("bytes and count", () => {
  it.each([
    [0, "0 B", "0"],
    [512, "512 B", "512"],
    [3410, "3.41 kB", "3.41 k"],
    [999_600, "1.00 MB", "1.00 M"],
    [14e6, "14.0 MB", "14.0 M"],
    [2.5e12, "2.50 TB", "2.50 T"],
  ])("%d", (value, size, number) => {
    expect(bytes(value)).toBe(size);
    expect(count(value)).toBe(number);
  });
});

describe("words", () => {
  it("gives shares with one decimal", () => {
    expect(share(0.1234)).toBe("12.3 %");
    expect(share(0)).toBe("0.0 %");
    expect(share(1)).toBe("100.0 %");
  });

  it("forms plurals", () => {
    expect(plural(1, "input")).toBe("1 input");
    expect(plural(0, "input")).toBe("0 inputs");
    expect(plural(2, "class")).toBe("2 classes");
    expect(plural(2, "switch")).toBe("2 switches");
  });

  it("turns rates into words", () => {
    expect(rateInWords(1.0374e-3, "prediction")).toBe("about 962 predictions a second");
    expect(rateInWords(3.248e-5, "prediction")).toBe("about 30800 predictions a second");
    expect(rateInWords(0.4274, "prediction")).toBe("about 2.34 predictions a second");
    expect(rateInWords(0.0625, "prediction")).toBe("about 16.0 predictions a second");
    expect(rateInWords(2.33, "prediction")).toBe("one prediction in about 2.33 seconds");
    expect(rateInWords(0, "prediction")).toBe("no predictions");
  });
});

describe("compactType", () => {
  it("shortens every tensor type in a text", () =>
    expect(compactType("tensor<fp16, [1, 3]>, tensor<int32, [4]>")).toBe("fp16 1×3, int32 4"));
  it("gives scalars their element type only", () => expect(compactType("tensor<bool, []>")).toBe("bool"));
  it("leaves other types as they are", () => expect(compactType("list<fp16>")).toBe("list<fp16>"));
});

describe("fileName", () => {
  it.each([
    ["models/a.mlpackage", "a.mlpackage"],
    ["models/a.mlpackage/", "a.mlpackage"],
    ["C:\\models\\b.mlmodel", "b.mlmodel"],
    ["apps/App.ipa#Payload/App.app/c.mlmodelc", "c.mlmodelc"],
    ["", "model"],
  ])("%s", (path, name) => expect(fileName(path)).toBe(name));
});

describe("fileArgument", () => {
  it.each([
    ["models/a.mlpackage", "a.mlpackage"],
    ["apps/App.ipa#Payload/App.app/c.mlmodelc", "App.ipa#Payload/App.app/c.mlmodelc"],
  ])("%s", (path, name) => expect(fileArgument(path)).toBe(name));
});

describe("moment", () => {
  it("shortens a time in UTC", () => expect(moment("2026-01-31T12:05:59Z")).toBe("2026-01-31 12:05 UTC"));
  it("leaves other texts as they are", () => expect(moment("yesterday")).toBe("yesterday"));
});
