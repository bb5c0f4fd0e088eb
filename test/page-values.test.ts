/** Parts of an output on the model's page, tested without a browser. */
import { expect, test } from "bun:test";
import { wireSchema } from "../src/author/wire-schema.ts";
import type { Json } from "../src/base/json.ts";
import { SchemaNode } from "../src/base/schemas/json-schema.ts";
import { grownBy } from "../src/http/page/client/value.ts";
import { image, z } from "../src/index.ts";

test("parts of an output are joined if they are texts, and replace each other if they are files or other values", () => {
  const node = (part: z.ZodType) => SchemaNode.of(wireSchema(part, "part"));
  const grown = (part: z.ZodType, parts: readonly Json[]) =>
    parts.reduce<Json | undefined>((before, each) => grownBy(node(part), before, each), undefined);
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
  const texts = ["see ", "https://a.example", " or ", "data: 3"];
  expect(grown(z.string(), texts)).toBe(texts.join(""));
});
