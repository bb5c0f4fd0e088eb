/** Code that sends the request, in curl, TypeScript and Python. The code reads files from disk, where the page has data URIs. */
import type { Json } from "../../../base/json.ts";
import { extensionOf, mediaTypeOf, type Value } from "./value.ts";

export const languages = ["curl", "TypeScript", "Python"] as const;
export type Language = (typeof languages)[number];

export interface SnippetOptions {
  readonly url: string;
  readonly input: Value;
  /** Whether the server asks for an API key. The code reads the key from the variable API_KEY, so that the page does not show it. */
  readonly hasKey: boolean;
}

/** Code that sends the input to POST /predictions. */
export function snippetOf(language: Language, { url, input, hasKey }: SnippetOptions): string {
  const files = new Map<string, { readonly name: string; readonly type: string }>();
  const marked = withMarks([input ?? null], "input", files);
  const json = JSON.stringify(marked, null, 2);
  const withFiles = (text: string, code: (name: string, type: string) => string) =>
    [...files].reduce((all, [mark, { name, type }]) => all.replace(`"${mark}"`, () => code(name, type)), text);
  const when = (isTrue: boolean, text: string) => (isTrue ? text : "");
  const hasFiles = files.size > 0;
  if (language === "curl") {
    const escaped = json.replaceAll(/[\\$`]/g, "\\$&");
    const body = withFiles(escaped, (name, type) => `"data:${type};base64,$(base64 < ${name} | tr -d "\\n")"`);
    const key = when(hasKey, ` \\\n  -H "Authorization: Bearer $API_KEY"`);
    return `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n  -H 'Prefer: wait'${key} -d @- <<END\n${body}\nEND`;
  }
  if (language === "TypeScript") {
    const body = withFiles(json, (name, type) => `await dataUri("${name}", "${type}")`);
    const reads = `import { readFile } from "node:fs/promises";

const dataUri = async (path: string, type: string) =>
  \`data:\${type};base64,\${await readFile(path, "base64")}\`;

`;
    const key = when(hasKey, `, Authorization: \`Bearer \${process.env.API_KEY}\``);
    return `${when(hasFiles, reads)}const response = await fetch("${url}", {
  method: "POST",
  headers: { "Content-Type": "application/json", Prefer: "wait"${key} },
  body: JSON.stringify(${body.replaceAll("\n", "\n  ")}),
});
const { status, outputs } = await response.json();
console.log(status, outputs);`;
  }
  const body = withFiles(pythonOf(json), (name, type) => `data_uri("${name}", "${type}")`);
  const reads = `def data_uri(path, type):
    with open(path, "rb") as file:
        return f"data:{type};base64,{base64.b64encode(file.read()).decode()}"

`;
  return `${when(hasFiles, "import base64\n")}${when(hasKey, "import os\n")}import requests

${when(hasFiles, reads)}response = requests.post(
    "${url}",
    headers={"Prefer": "wait"${when(hasKey, ', "Authorization": "Bearer " + os.environ["API_KEY"]')}},
    json=${body.replaceAll("\n", "\n    ")},
)
print(response.json())`;
}

/** Replaces each data URI in a value with a marker, and notes its file. */
function withMarks(value: Json, name: string, files: Map<string, { name: string; type: string }>): Json {
  if (typeof value === "string") {
    const type = mediaTypeOf(value);
    if (!value.startsWith("data:") || !value.includes(";base64,")) return value;
    const mark = `file ${files.size} of the page`;
    files.set(mark, { name: `${name}${files.size > 0 ? `-${files.size + 1}` : ""}.${extensionOf(type)}`, type });
    return mark;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each: Json) => withMarks(each, name, files));
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withMarks(each, key, files)]));
}

/** Replaces `true`, `false` and `null` outside strings with Python's words. */
function pythonOf(json: string): string {
  const words: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" };
  return json.replaceAll(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) => words[token] ?? token);
}
