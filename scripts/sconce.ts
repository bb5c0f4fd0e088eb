/** The command line of this checkout. */

import { main } from "../src/cli.ts";

await main(process.argv.slice(2));
