/** Twenty reloads under 64 clients, two of them with a build that does not start: no request fails. */
import { expect, test } from "bun:test";
import { type Build, storeOfBuilds } from "../helpers/builds.ts";
import { clientOf } from "../helpers/cli.ts";
import { inRole, until } from "../helpers/running.ts";
import { movedTag, switchUnderLoad } from "../helpers/switches.ts";
import { tempDir } from "../helpers/temp-dir.ts";

test("twenty switches of a build under 64 clients fail no request, and each answer is from the build that it names", async () => {
  await using store = await storeOfBuilds();
  await using dir = await tempDir();
  store.tag(movedTag, "v1");
  const options = ["--admin-port", "0", "--store", dir.join("p.sqlite")];
  await using server = store.start([`lab:${movedTag}`, ...options, "--fronts", "2"], { BROKEN_BUILD: "v3" });
  const adminUrl = new URL(/http:\S+/.exec(await server.line("Admin port"))?.[0] ?? "");
  const { url } = await clientOf(server);
  const switched = Array.from({ length: 18 }, (_, i): Build => (i % 2 === 0 ? "v2" : "v1"));
  const moves = switched.toSpliced(6, 0, "v3").toSpliced(16, 0, "v3");
  const found = await switchUnderLoad({ store, url, adminUrl, clients: 64, moves });
  console.log(`${found.answers.length} answers, ${found.failures.length} failed, ${found.wrong.length} wrong`);
  expect(found.failures).toEqual([]);
  expect(found.wrong).toEqual([]);
  const codes = found.reloads.map((each) => each.split(" ")[0]);
  expect(codes).toEqual(moves.map((build) => (build === "v3" ? "500" : "200")));
  expect(new Set(found.answers.map(({ model }) => model?.digest)).size).toBe(2);
  // The processes of the earlier builds have ended.
  await until(async () => (await inRole(server.pid, "engine")).length === 1);
  expect(await inRole(server.pid, "front")).toHaveLength(2);
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
}, 600_000);
