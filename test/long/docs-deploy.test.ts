/** Every command of docs/deploy.md works, and prints the JSON that the page shows. */
import { test } from "bun:test";
import { runPage } from "../helpers/reader.ts";

test(
  "the commands of docs/deploy.md run in the order of the page",
  () => runPage("docs/deploy.md", { models: ["digits"] }),
  300_000,
);
