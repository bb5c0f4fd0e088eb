/** Every command of docs/export.md works, and prints the JSON that the page shows. */
import { test } from "bun:test";
import { runPage } from "../helpers/reader.ts";

test("the commands of docs/export.md run in the order of the page", () => runPage("docs/export.md"), 300_000);
