/**
 * The rooms of `src` are folders with rules for imports. A table states which rooms each room imports, and its doors:
 * the files that other rooms may import. `npm run check` enforces the table.
 */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./setup/step.ts";

interface Room {
  /** Names of rooms that this room imports, separated by spaces. */
  readonly imports: string;
  /**
   * Files that other rooms may import, without `.ts`; `*` for every file. For a folder in `server`: files that the rest
   * of `server` may import.
   */
  readonly doors: string;
}

const rooms: Readonly<Record<string, Room>> = {
  base: {
    imports: "",
    doors: "*",
  },
  author: {
    imports: "base",
    doors: `
      audio/wav data-url decoding-gate define device elements fault-limit file file-description hook-context hook-fault input-error media-type name
      ndarray-bytes ndarray-wire openai params parts plain-check schema-faults session source-map stack stray-errors tensor tensor-memory url-label
      wire-schema
      withheld-files z zod-internals zod-issues`,
  },
  machine: {
    imports: "base .",
    doors: `
      files/disk-fault files/durable files/file-stamp files/location files/lock files/made-once files/temporary-folder
      libtorch/cache-folder libtorch/external-libtorch libtorch/find-addon libtorch/glibc libtorch/library-cache libtorch/libtorch-build
      libtorch/linked-libraries libtorch/native-location libtorch/pack libtorch/sha256 control-groups network/address-guard network/bounded-body
      network/content-encoding network/guarded-requests network/loopback network/name-resolver network/redirects
      processes/child processes/event-loop-lag processes/link processes/port-lock
      processes/program processes/program-name processes/run-folder processes/shared-counters processes/supervised service-manager`,
  },
  engine: {
    imports: "base author machine",
    doors: `
      device engine export-mistakes fair-queue forward-fault item-check latency-target libtorch-env local-engine
      native/archive native/binding native/package-needs native/program native/program-guards native/program-schema native/weights-kind
      open-runners remote/engine-server remote/frame remote/remote-engine rows runner warm-up`,
  },
  package: {
    imports: "base author machine engine .",
    doors: `
      code/bundle code/load code/package-manager executable/contents executable/executable executable/sources
      image/image image/layout image/platform image/program model-source registry/credentials
      registry/pull registry/push registry/registry registry/remote-reference store/blobs store/manifest
      store/packaged-model store/reference store/store store/verification`,
  },
  server: {
    imports:
      "base author machine engine package server/access server/memory server/metrics server/inputs server/flow server/predictions server/webhooks server/queue server/http server/telemetry",
    doors: `
      access/key-file config flow/captured-console flow/difference flow/fetcher flow/golden flow/item-flow
      flow/item-pipeline flow/output-encoder flow/run-demo flow/set-up flow/trial flow/trial-items http/listener
      http/with-context http/routes/health model-engine roles server server-control`,
  },
  cli: {
    imports: "base author machine engine package server",
    doors: "",
  },
  "server/access": {
    imports: "",
    doors: "api-key api-keys key-file",
  },
  "server/memory": {
    imports: "",
    doors: "charge file-memory memory-account",
  },
  "server/metrics": {
    imports: "server/http server/predictions",
    doors: "counts metrics server-metrics",
  },
  "server/telemetry": {
    imports: "server/metrics",
    doors: "open-telemetry settings spans",
  },
  "server/inputs": {
    imports: "server/memory",
    doors: "bodies body expected-kinds input-decoder input-list json-size large-bodies loop-turns",
  },
  "server/flow": {
    imports: "server server/memory server/inputs server/predictions server/telemetry",
    doors: `
      difference drain-rate fetcher hook-cell hooks item-fault item-flow item-list item-pipeline output-encoder run-demo
      set-up quarantine`,
  },
  "server/predictions": {
    imports:
      "server server/access server/memory server/metrics server/inputs server/flow server/telemetry server/webhooks",
    doors: `
      admission ids large-text live live-predictions model-version observed once open-store metrics options outcome-list part-log predictions record
      running-build sent-outputs service store waits`,
  },
  "server/webhooks": {
    imports: "server server/memory server/metrics server/predictions",
    doors: "webhook webhooks",
  },
  "server/queue": {
    imports: "server server/memory server/metrics server/inputs server/flow server/predictions server/webhooks",
    doors: "replica",
  },
  "server/http": {
    imports:
      "server server/access server/memory server/metrics server/inputs server/flow server/predictions server/webhooks server/queue server/telemetry server/page",
    doors:
      "apis/api apis/apis app assets listener metrics openapi/short-example options record-json request routes/health routes/models served-model siblings uploads with-context",
  },
  "server/page": {
    imports: "server/http",
    doors: "page",
  },
  // Files directly in `src` may import every room.
  ".": { imports: "", doors: "main index" },
};

interface Import {
  readonly from: string;
  readonly to: string;
  /** Whether the file starts a thread or a process with the other file, and does not load it. */
  readonly isStart?: boolean;
}

const importPattern =
  /\b(?:from|import) "(\.[^"]+\.tsx?)"|\bimport\("(\.[^"]+\.tsx?)"\)|\bnew URL\("(\.[^"]+\.ts)", import\.meta\.url\)/g;

/** All imports between files of `src`, including imports of types. */
export function readImports(src = join(root, "src")): Import[] {
  const files = new Set(readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => /\.tsx?$/.test(path)));
  return [...files].flatMap((from) =>
    [...readFileSync(join(src, from), "utf8").matchAll(importPattern)]
      .map(([, fixed, dynamic, url]) => ({
        from,
        to: relative(src, join(src, dirname(from), fixed ?? dynamic ?? url ?? "")),
        isStart: url !== undefined,
      }))
      .filter(({ to }) => files.has(to)),
  );
}

/** The innermost room of a file. Files directly in `src` (`index.ts`, `main.ts`) have the room `.`. */
function roomOf(path: string): string {
  let folder = dirname(path);
  while (!(folder in rooms) && folder !== ".") folder = dirname(folder);
  return folder;
}

const words = (text: string | undefined) => (text === undefined ? [] : text.trim().split(/\s+/).filter(Boolean));

/** Finds files that import each other in a circle. @returns a message about one circle, if there is one */
export function circles(imports: readonly Import[] = readImports()): string[] {
  const open = new Map<string, Set<string>>();
  for (const { from, to, isStart } of imports) {
    if (!isStart) open.set(from, (open.get(from) ?? new Set()).add(to));
  }
  const nextOf = (file: string) => [...(open.get(file) ?? [])].find((each) => open.has(each));
  for (let hasEnds = true; hasEnds; ) {
    const ends = [...open.keys()].filter((file) => nextOf(file) === undefined);
    for (const file of ends) open.delete(file);
    hasEnds = ends.length > 0;
  }
  const walked: string[] = [];
  let [file] = open.keys();
  while (file !== undefined && !walked.includes(file)) {
    walked.push(file);
    file = nextOf(file);
  }
  if (file === undefined) return [];
  const circle = [...walked.slice(walked.indexOf(file)), file].map((each) => `src/${each}`);
  return [`${circle.join(" imports ")}: move what they share into the lower file, or into a third one`];
}

/**
 * Compares the imports with the table. @returns a message for each forbidden import, and for each door that no file
 * imports
 */
export function brokenRules(imports: readonly Import[] = readImports()): string[] {
  const broken = new Set<string>();
  const unused = new Set(
    Object.entries(rooms).flatMap(([room, { doors }]) =>
      words(doors).flatMap((door) => (door === "*" ? [] : [`${room}/${door}`])),
    ),
  );
  for (const { from, to } of imports) {
    let [importer, imported] = [roomOf(from), roomOf(to)];
    const [outer = "", importedOuter = ""] = [importer.split("/")[0], imported.split("/")[0]];
    if (outer !== importedOuter) [importer, imported] = [outer, importedOuter];
    if (importer === imported || importer === ".") continue;
    if (!words(rooms[importer]?.imports).includes(imported)) {
      broken.add(`src/${from} imports src/${to}: ${importer} does not import ${imported}`);
    }
    const door = relative(imported, to).replace(/\.tsx?$/, "");
    unused.delete(`${imported}/${door}`);
    const doors = words(rooms[imported]?.doors);
    if (!doors.includes("*") && !doors.includes(door)) {
      broken.add(`src/${from} imports src/${to}, which is no door of ${imported}: import a door, or make ${door} one`);
    }
  }
  for (const door of unused) broken.add(`src/${door}.ts is a door without an importer: remove it from the doors`);
  return [...broken];
}
