/**
 * Attacks by strangers: pages of other origins, foreign host names, scripts in outputs, registries that redirect, and
 * host names that do not exist.
 */
import { ModelStore } from "../../../src/package/store/store.ts";
import { eventsOf } from "../../helpers/events.ts";
import { pullFromLeading } from "../../helpers/fake-registry.ts";
import { tempDir } from "../../helpers/temp-dir.ts";
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { predict } from "../traffic.ts";

const ROUNDS = { short: 1, long: 200 };
const DEAD_NAMES = 1000;
const PICTURES = 10;

export const outsiders: Fault = {
  name: "outsiders",
  title:
    "pages of other origins and foreign host names get nothing, and hosts that do not exist hold up no other input",
  async inject(injection) {
    const { tally, home, isLong } = injection;
    await using server = await TestedServer.start({ home });
    for (let round = 0; round < (isLong ? ROUNDS.long : ROUNDS.short); round++) {
      await tally.inject(async () => {
        for (const [what, status] of await refusals(server.url))
          if (status !== 403) tally.found("wrong", `${what} is answered with ${status}`);
        const { outputs } = await predict(server.url, [{ x: 5 }]);
        if (outputs?.[0]?.y !== 15) tally.found("wrong", `beside outsiders: ${JSON.stringify(outputs)}`);
        tally.counts.checked += 1;
      });
    }
    await tally.inject(() => documentation(injection, server.url));
    await tally.inject(() => registries(injection));
    await tally.inject(() => deadNames(injection));
  },
};

async function refusals(url: URL): Promise<[what: string, status: number][]> {
  const form = new FormData();
  form.set("x", "1");
  const site = { "Sec-Fetch-Site": "cross-site", Origin: "http://other.example" };
  const asked: [string, string, RequestInit][] = [
    ["a form of another origin", "/predictions", { method: "POST", body: form, headers: site }],
    ["a demo of another origin", "/demo", { method: "POST", body: form, headers: site }],
    ["a page of a foreign host name", "/", { headers: { Host: "other.example" } }],
    ["a prediction under a foreign host name", "/predictions/x", { headers: { Host: "other.example" } }],
  ];
  return Promise.all(
    asked.map(async ([what, path, init]) => [what, (await fetch(new URL(path, url), init)).status] as [string, number]),
  );
}

async function documentation({ tally }: Injection, url: URL): Promise<void> {
  for (const path of ["/docs", "/demo"]) {
    const { headers } = await fetch(new URL(path, url));
    const policy = headers.get("content-security-policy") ?? "";
    if (!policy.startsWith("default-src 'none'; script-src 'self'")) tally.problem(`${path} has the policy ${policy}`);
    if (headers.get("x-content-type-options") !== "nosniff") tally.problem(`${path} lacks nosniff`);
  }
}

async function registries({ tally }: Injection): Promise<void> {
  await using dir = await tempDir();
  for (const lead of ["redirect", "realm"] as const) {
    const { message, reached } = await pullFromLeading(new ModelStore(dir.join(lead)), "8.8.8.8", lead);
    if (!message.includes("in a private network")) tally.problem(`a ${lead} to loopback: ${message}`);
    if (reached > 0) tally.found("leaked", `a ${lead} of a registry reached loopback`);
  }
}

async function deadNames({ tally, home }: Injection): Promise<void> {
  const names = Array.from({ length: DEAD_NAMES }, (_, i) => ({ files: [`http://n${i}.never.example/`] }));
  const inputs: object[] = [...names];
  const pictures = Array.from({ length: PICTURES }, (_, i) => i * (DEAD_NAMES / PICTURES) + i);
  for (const at of pictures) inputs.splice(at, 0, { rows: 2 });
  await using server = await TestedServer.start({ home, model: "greedy" });
  const response = await fetch(new URL("/predictions", server.url), {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream", "Cancel-After": "60" },
    body: JSON.stringify(inputs),
  });
  const beganMs = performance.now();
  const ended: number[] = [];
  for await (const { event, data } of eventsOf(response)) {
    if (event === "output") ended.push((data as { index: number }).index);
    if (event === "completed" || ended.length === PICTURES) break;
  }
  tally.counts.checked += ended.length;
  tally.note(`${ended.length} inputs among ${DEAD_NAMES} dead names: ${(performance.now() - beganMs).toFixed(0)} ms`);
  if (ended.length < PICTURES) tally.found("stuck", `${ended.length} of ${PICTURES} inputs beside dead names ended`);
}
