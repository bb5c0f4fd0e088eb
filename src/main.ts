#!/usr/bin/env bun
/** The program of the npm package, and of a checkout without its set-up; a compiled executable has `cli/executable/main.ts`. */
import { main } from "./cli/cli.ts";

await main(process.argv.slice(2));
