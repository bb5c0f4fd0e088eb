#!/usr/bin/env bun
/** Entry of the npm package and of a checkout. Compiled executables start in `cli/executable/main.ts`. */
import { main } from "./cli/cli.ts";

await main(process.argv.slice(2));
