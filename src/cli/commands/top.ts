/** `sconce top [URL]`: shows the metrics of a running server, again and again. */
import { stripVTControlCharacters } from "node:util";
import { messageOf } from "../../base/errors.ts";
import { duration, flagOff, option } from "../../base/option.ts";
import { command } from "../command-line/command.ts";
import { DEFAULT_URL, ServerClient, serverOptions } from "./remote/server-client.ts";
import { figuresOf } from "./top/figures.ts";
import { Samples } from "./top/samples.ts";
import { linesOf } from "./top/view.ts";

const clear = "\x1b[H\x1b[J";
const [showCursor, hideCursor] = ["\x1b[?25h", "\x1b[?25l"];

export const top = command({
  details: `The command reads GET /metrics of a server, and shows rates and latencies of the last interval. For a server with an admin port, give the URL of this port. With several models, a table has a row for each model. Latencies are estimates from the buckets of histograms. Without a terminal, and with --once, the command prints the view once. --json prints a line for each interval. q or Ctrl-C ends the command.`,
  example: `sconce top
sconce top https://models.example.com --key "$KEY" --interval 5
sconce top --once --json | jq .latencyMs`,
  options: {
    interval: option({
      description: "Seconds between two readings of the metrics",
      default: 1,
      variable: "SCONCE_TOP_INTERVAL",
      ...duration("seconds", 0.1, 3600),
    }),
    once: option({ description: "Print one interval and end", ...flagOff }),
    json: option({ description: "Print JSON, a line for each interval", ...flagOff }),
    ...serverOptions,
  },
  positionals: [{ name: "url", description: `Address of the server; default: ${DEFAULT_URL}`, required: false }],
  async run({ options, positionals: [url = DEFAULT_URL] }) {
    const client = new ServerClient(url, options);
    const { stdout } = process;
    const isLive = stdout.isTTY && !options.json && !options.once;
    const scrape = async () => new Samples(await client.text("metrics"));
    const keys = isLive ? new QuitKey() : undefined;
    if (isLive) stdout.write(hideCursor);
    try {
      let before = await scrape();
      do {
        if (await quitWithin(1000 * options.interval, keys)) break;
        const after = await scrape().catch((error: unknown) => {
          if (!isLive) throw error;
          return messageOf(error);
        });
        if (typeof after === "string") {
          stdout.write(`${clear}${after}\n`);
          continue;
        }
        const figures = figuresOf(before, after);
        before = after;
        if (options.json) console.log(JSON.stringify(figures));
        else if (isLive) stdout.write(`${clear}${fitting(linesOf(figures, client.url))}`);
        else console.log(linesOf(figures, client.url).join("\n"));
      } while (isLive || (options.json && !options.once));
    } finally {
      keys?.[Symbol.dispose]();
      if (isLive) stdout.write(showCursor);
    }
  },
});

/** Cuts lines to the size of the terminal. */
function fitting(lines: readonly string[]): string {
  const { columns = 80, rows = 24 } = process.stdout;
  return lines
    .slice(0, rows - 1)
    .map((line) => [...stripVTControlCharacters(line)].slice(0, columns).join(""))
    .join("\n");
}

async function quitWithin(ms: number, keys: QuitKey | undefined): Promise<boolean> {
  return Promise.race([
    Bun.sleep(ms).then(() => false),
    ...(keys === undefined ? [] : [keys.pressed.then(() => true)]),
  ]);
}

/** The keys q, Ctrl-C and Ctrl-D as a terminal in raw mode sends them. */
const quitKeys: ReadonlySet<string> = new Set(["q", "Q", "\x03", "\x04"]);

class QuitKey implements Disposable {
  readonly #pressed = Promise.withResolvers<void>();
  readonly #onData = (data: Buffer) => {
    if (
      data
        .toString()
        .split("")
        .some((key) => quitKeys.has(key))
    )
      this.#pressed.resolve();
  };

  constructor() {
    const { stdin } = process;
    if (!stdin.isTTY) return;
    stdin.setRawMode(true);
    stdin.on("data", this.#onData);
    stdin.resume();
  }

  get pressed(): Promise<void> {
    return this.#pressed.promise;
  }

  [Symbol.dispose](): void {
    const { stdin } = process;
    if (!stdin.isTTY) return;
    stdin.off("data", this.#onData);
    stdin.setRawMode(false);
    stdin.pause();
  }
}
