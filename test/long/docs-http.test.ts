/** Every command of docs/http.md works, and prints the JSON that the page shows. */
import { test } from "bun:test";
import { runPage } from "../helpers/reader.ts";

test(
  "the commands of docs/http.md run in the order of the page",
  () => runPage("docs/http.md", { models: ["digits"] }),
  300_000,
);
