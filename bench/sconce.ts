/** The command line without the set-up in front of it, which whoever starts a benchmark has done. */
import { main } from "../src/cli.ts";

await main(process.argv.slice(2));
