/**
 * `bun sconce.ts COMMAND …`: the command line from the sources, without the set-up, for tests that start a child
 * process.
 */
import { main } from "../../src/cli/cli.ts";

await main(process.argv.slice(2));
