import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { drawPlot, type Plot } from "../bench/plot.ts";
import { withContent } from "../bench/publish.ts";
import { linearScale, logScale, spreadApart } from "../bench/scale.ts";

describe("scales", () => {
  test("a linear scale puts its ends at the ends, the middle in the middle, and marks round values", () => {
    const scale = linearScale({ domain: [0, 2500], range: [300, 0] });
    expect([0, 1250, 2500].map(scale.at)).toEqual([300, 150, 0]);
    expect(scale.ticks).toEqual([0, 500, 1000, 1500, 2000, 2500]);
  });

  test("a linear scale marks round values without rounding errors", () => {
    expect(linearScale({ domain: [0, 1.02], range: [0, 1] }).ticks).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  });

  test("a linear scale that begins a little above zero does not mark zero", () => {
    const { ticks } = linearScale({ domain: [1.0000001566368155e-5, 60021.27361303342], range: [0, 1] });
    expect(ticks).toEqual([20_000, 40_000, 60_000]);
  });

  test("a linear scale of any domain marks some values, all within it", () => {
    const ends = fc.double({ min: 0, max: 1e6, noNaN: true });
    const lengths = fc.double({ min: 1e-3, max: 1e6, noNaN: true });
    fc.assert(
      fc.property(ends, lengths, (low, length) => {
        const { ticks } = linearScale({ domain: [low, low + length], range: [0, 1] });
        expect(ticks.length).toBeGreaterThanOrEqual(2);
        expect(ticks.length).toBeLessThanOrEqual(7);
        expect(ticks.filter((tick) => tick < low || tick > low + length)).toEqual([]);
      }),
      { examples: [[1.0000001566368155e-5, 60021.27361303342]] },
    );
  });

  test("a logarithmic scale puts equal ratios at equal distances", () => {
    const scale = logScale({ domain: [1, 256], range: [0, 80], base: 2 });
    for (const [i, value] of [1, 2, 4, 8, 16, 32, 64, 128, 256].entries()) expect(scale.at(value)).toBeCloseTo(10 * i);
    expect(scale.ticks).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256]);
  });

  test("a logarithmic scale of base ten marks 1, 2 and 5 times its powers within its domain", () => {
    expect(logScale({ domain: [0.7, 130], range: [0, 1], base: 10 }).ticks).toEqual([1, 2, 5, 10, 20, 50, 100]);
  });
});

describe("names at the ends of lines", () => {
  test("stay where they are when they are far enough apart", () => {
    expect(spreadApart([10, 100, 50], { gap: 17, max: 200 })).toEqual([10, 100, 50]);
  });

  test("are moved apart in their order, and not below the axis", () => {
    expect(spreadApart([50, 48, 49], { gap: 10, max: 200 })).toEqual([68, 48, 58]);
    expect(spreadApart([198, 196], { gap: 10, max: 200 })).toEqual([200, 190]);
  });
});

describe("a plot", () => {
  const plot: Plot = {
    title: "Fast & <slow>",
    description: "Two lines.",
    x: { label: "connections", domain: [1, 4], scale: (options) => logScale({ ...options, base: 2 }), format: String },
    y: { label: "per second", domain: [0, 10], scale: linearScale, format: String },
    lines: [
      {
        name: "one",
        points: [
          { x: 1, y: 1 },
          { x: 4, y: 9 },
        ],
      },
      {
        name: "other",
        points: [
          { x: 1, y: 2 },
          { x: 4, y: 3 },
        ],
      },
    ],
    limit: { axis: "y", value: 10, label: "limit" },
  };

  test("says what it shows to those who do not see it, whatever characters that has", () => {
    const svg = drawPlot(plot);
    expect(svg).toMatch(/^<svg [^>]*role="img" aria-labelledby="title description">/);
    expect(svg).toContain('<title id="title">Fast &amp; &lt;slow&gt;</title>');
    expect(svg).toContain('<desc id="description">Two lines.</desc>');
  });

  test("has every axis, line and limit named, and colours for the dark", () => {
    const svg = drawPlot(plot);
    for (const name of ["connections", "per second", "one", "other", "limit"]) expect(svg).toContain(`>${name}</text>`);
    expect(svg).toContain("prefers-color-scheme:dark");
  });

  test("draws greater values higher", () => {
    const heights = [...drawPlot(plot).matchAll(/<polyline points="[\d.]+,([\d.]+) [\d.]+,([\d.]+)"/g)].map(
      ([, first, last]) => [Number(first), Number(last)],
    );
    expect(heights).toHaveLength(2);
    for (const [first = 0, last = 0] of heights) expect(last).toBeLessThan(first);
  });
});

test("published results replace the earlier ones and nothing else", () => {
  const before = "# Title\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nrest\n";
  const after = "# Title\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nrest\n";
  expect(withContent(before, "new")).toBe(after);
  expect(withContent(after, "new")).toBe(after);
  expect(() => withContent("# Title\n", "new")).toThrow("bench:begin");
});
