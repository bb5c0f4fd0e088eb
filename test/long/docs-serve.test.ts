/** Every command of docs/serve.md works, and prints the JSON that the page shows. */
import { test } from "bun:test";
import { runPage } from "../helpers/reader.ts";

test(
  "the commands of docs/serve.md run in the order of the page",
  () => runPage("docs/serve.md", { models: ["digits", "upscale"] }),
  300_000,
);
