import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { heldOutDigits } from "../examples/digits/heldout.ts";
import { fileUri } from "./helpers/data-uri.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const folder = fileURLToPath(new URL("../examples/digits", import.meta.url));
const server = new SharedServer([folder], "digits");

async function read(images: readonly string[]): Promise<unknown[]> {
  const { outputs } = await server.client.predict(images.map((image) => ({ image })));
  return (outputs ?? []).map(({ digit }) => digit);
}

test("the example digits, served, reads at least 98 of 100 digits that its training never saw", async () => {
  const heldOut = await heldOutDigits();
  expect(heldOut.length).toBe(360);
  const digits = await read(heldOut.map(({ image }) => image.toDataUri()));
  const right = heldOut.filter(({ label }, i) => digits[i] === label).length;
  expect(right / heldOut.length).toBeGreaterThanOrEqual(0.98);
});

test("the example digits reads digits of another size and on white paper", async () => {
  const names = ["3", "4", "7", "9"];
  const images = await Promise.all(names.map((name) => fileUri(`${folder}/samples/${name}.png`)));
  expect(await read(images)).toEqual(names.map(Number));
});
