/** Runs the command line of this checkout. */

import { main } from "../src/cli/cli.ts";

await main(process.argv.slice(2));
