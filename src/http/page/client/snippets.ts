/** Code that sends the request, in curl, TypeScript and Python. It reads files from disk, where the page has data URIs. */
import { extensionOf } from "./media.tsx";
import { type Json, mediaTypeOf, type Value } from "./value.ts";

export const languages = ["curl", "TypeScript", "Python"] as const;
export type Language = (typeof languages)[number];

interface FileUse {
  readonly mark: string;
  readonly name: string;
  readonly type: string;
}

export interface SnippetOptions {
  /** URL of the server, with a slash at its end. */
  readonly address: string;
  readonly inputs: readonly Value[];
  /** Whether the server asks for an API key. The code reads the key from the variable API_KEY, so that the page does not show it. */
  readonly hasKey: boolean;
}

/** Code that sends the inputs to POST /predictions. */
export function snippetOf(language: Language, { address, inputs, hasKey }: SnippetOptions): string {
  const files: FileUse[] = [];
  const marked = inputs.map((input) => withMarks(input ?? null, "input", files));
  const json = JSON.stringify(marked, null, 2);
  const replaced = (text: string, file: (use: FileUse) => string) =>
    files.reduce((all, use) => all.replace(`"${use.mark}"`, () => file(use)), text);
  const url = `${address}predictions`;
  switch (language) {
    case "curl": {
      const body = replaced(
        json.replaceAll(/[\\$`]/g, "\\$&"),
        ({ name, type }) => `"data:${type};base64,$(base64 < ${name} | tr -d "\\n")"`,
      );
      return `curl ${url} \\\n  -H 'Content-Type: application/json' \\\n  -H 'Prefer: wait'${hasKey ? ' \\\n  -H "Authorization: Bearer $API_KEY"' : ""} -d @- <<END\n${body}\nEND`;
    }
    case "TypeScript": {
      const body = replaced(json, ({ name, type }) => `await dataUri("${name}", "${type}")`);
      const reads = `import { readFile } from "node:fs/promises";\n\nconst dataUri = async (path: string, type: string) =>\n  \`data:\${type};base64,\${await readFile(path, "base64")}\`;\n\n`;
      return `${files.length > 0 ? reads : ""}const response = await fetch("${url}", {\n  method: "POST",\n  headers: { "Content-Type": "application/json", Prefer: "wait"${hasKey ? `, Authorization: \`Bearer \${process.env.API_KEY}\`` : ""} },\n  body: JSON.stringify(${indented(body, "  ")}),\n});\nconst { status, outputs } = await response.json();\nconsole.log(status, outputs);`;
    }
    case "Python": {
      const body = replaced(pythonOf(json), ({ name, type }) => `data_uri("${name}", "${type}")`);
      const reads = `def data_uri(path, type):\n    with open(path, "rb") as file:\n        return f"data:{type};base64,{base64.b64encode(file.read()).decode()}"\n\n`;
      return `${files.length > 0 ? "import base64\n" : ""}${hasKey ? "import os\n" : ""}import requests\n\n${files.length > 0 ? reads : ""}response = requests.post(\n    "${url}",\n    headers={"Prefer": "wait"${hasKey ? ', "Authorization": "Bearer " + os.environ["API_KEY"]' : ""}},\n    json=${indented(body, "    ")},\n)\nprint(response.json())`;
    }
  }
}

/** Replaces each data URI in a value with a marker, and notes its file. */
function withMarks(value: Json, name: string, files: FileUse[]): Json {
  if (typeof value === "string") {
    const type = mediaTypeOf(value);
    if (type === undefined || !value.includes(";base64,")) return value;
    const others = files.filter((file) => file.name.startsWith(name)).length;
    const fileName = `${name}${others > 0 ? `-${others + 1}` : ""}.${extensionOf(type)}`;
    const use = { mark: `file ${files.length} of the page`, name: fileName, type };
    files.push(use);
    return use.mark;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each: Json) => withMarks(each, name, files));
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withMarks(each, key, files)]));
}

function indented(text: string, by: string): string {
  return text.replaceAll("\n", `\n${by}`);
}

/** Replaces `true`, `false` and `null` outside strings with Python's words. */
function pythonOf(json: string): string {
  const words: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" };
  return json.replaceAll(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) => words[token] ?? token);
}
