/** Code of the model's page, tested without a browser: texts of numbers, parts of outputs, and events. */
import { describe, expect, test } from "bun:test";
import { wireSchema } from "../src/author/wire-schema.ts";
import { SchemaNode } from "../src/base/schemas/json-schema.ts";
import { eventsIn } from "../src/http/page/client/events.ts";
import { alignedTexts, grownBy, type Json } from "../src/http/page/client/value.ts";
import { image, z } from "../src/index.ts";

test.each([
  ["shares of 1 as percent", [0.9012, 0.09876, 0.00004], ["90.1 %", "9.9 %", "0.0 %"]],
  ["with as many decimals each", [0.5, 12.3456, -1], ["0.50", "12.35", "-1.00"]],
  ["whole ones as they are", [3, 100], ["3", "100"]],
  ["very small ones with an exponent", [1e-7, 2e-5], ["1.000e-7", "2.000e-5"]],
])("numbers are aligned: %s", (_, values, texts) => {
  expect(alignedTexts(values)).toEqual(texts);
});

describe("parts of an output", () => {
  const node = (part: z.ZodType) => SchemaNode.of(wireSchema(part, "part"));
  const grown = (part: z.ZodType, parts: readonly Json[]) =>
    parts.reduce<Json | undefined>((before, each) => grownBy(node(part), before, each), undefined);

  test("are joined if they are texts, and replace each other if they are files or other values", () => {
    const part = z.object({
      text: z.string().optional(),
      step: z.int(),
      picture: image().optional(),
      seen: z.object({ word: z.string() }).optional(),
    });
    const parts = [
      { text: "Once ", step: 1, picture: "data:image/png;base64,AA", seen: { word: "a" } },
      { text: "upon", step: 2, picture: "data:image/png;base64,BB", seen: { word: "b" } },
      { step: 3 },
    ];
    const whole = { text: "Once upon", step: 3, picture: "data:image/png;base64,BB", seen: { word: "ab" } };
    expect(grown(part, parts)).toEqual(whole);
    expect(grown(z.array(z.int()), [[1], [2, 3]])).toEqual([2, 3]);
  });

  test("are joined as texts, even if a text contains an address", () => {
    expect(grown(z.string(), ["see ", "https://a.example", " or ", "data: 3"])).toBe(
      "see https://a.example or data: 3",
    );
  });
});

test("events are found in their text, whatever chunks it arrives in", async () => {
  const text = "retry: 1\n\nevent: log\ndata: a\nid: 1\n\n: comment\n\ndata: b\ndata: c\n\nrest";
  for (let size = 1; size <= text.length; size++) {
    const chunks = Array.from({ length: Math.ceil(text.length / size) }, (_, i) => text.slice(i * size).slice(0, size));
    const stream = new ReadableStream<string>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    const found = await Array.fromAsync(eventsIn(stream));
    expect(found).toEqual([
      { name: "log", data: "a" },
      { name: "message", data: "b\nc" },
    ]);
  }
});
