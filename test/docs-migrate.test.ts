/** The models of docs/migrate.md build, and a server runs them. */
import { expect } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { dataUri } from "./helpers/data-uri.ts";
import { testPageModels } from "./helpers/page-models.ts";

const sample = Uint8Array.from(readFileSync(join(import.meta.dir, "../examples/digits/samples/3.png")));
const picture = dataUri(sample);

testPageModels("docs/migrate.md", {
  "classifier/model.ts": {
    input: { image: picture },
    files: { "sample.png": sample },
    check: (output) => expect(output).toEqual({ digit: 3 }),
  },
  "readings/model.ts": {
    input: { values: Array.from({ length: 32 }, () => 0) },
    check: (output) => expect(output).toEqual({ anomaly: 0.5 }),
  },
  "denoise/model.ts": {
    input: { photograph: picture, strength: 1 },
    files: { "sample.png": sample },
    check: (output) => expect(output).toEqual({ clean: expect.stringMatching(/^data:image\/png;base64,/) }),
  },
});
