/** The command line without the set-up, for tests with a child process: `bun sconce.ts COMMAND …`. */
import { main } from "../../src/cli/cli.ts";

await main(process.argv.slice(2));
