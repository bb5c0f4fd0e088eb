/** Every command of docs/apis.md works, and prints the JSON that the page shows. */
import { test } from "bun:test";
import { runPage } from "./helpers/reader.ts";

test("the commands of docs/apis.md run in order", () => runPage("docs/apis.md", { models: ["digits"] }), 300_000);
