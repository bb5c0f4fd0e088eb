/** Every command of the README works, and prints the JSON that the README shows. */
import { expect, test } from "bun:test";
import { runPage } from "./helpers/reader.ts";

test("the commands of the README run in the order of the page, and npm start prints a request that works", async () => {
  let requests = 0;
  await runPage("README.md", {
    async onServer(server, reader) {
      const request = await server.line("curl ");
      const prediction: unknown = JSON.parse(await reader.run(request));
      expect(prediction).toMatchObject({ status: "success", outputs: [{ digit: expect.any(Number) }] });
      requests++;
    },
  });
  expect(requests).toBe(1);
}, 300_000);
