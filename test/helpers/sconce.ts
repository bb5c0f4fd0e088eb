/** The command line without the set-up, for tests that need a process of its own: `bun sconce.ts COMMAND …`. */
import { main } from "../../src/cli/cli.ts";

await main(process.argv.slice(2));
