/** A text field for JSON. It edits arrays of numbers, which may come from a file, and values that no other field can edit. */
import { useState } from "preact/hooks";
import { listsOfNpy } from "../../../base/npy.ts";
import { dataUriOf } from "./file-field.tsx";
import { controlOf, type FieldProps, Labelled } from "./labelled.tsx";
import { type Json, mediaTypeOf, sizeOf, sizeText, type Value } from "./value.ts";

export function ArrayField({ value, onChange, takesNumbers, ...at }: FieldProps & { readonly takesNumbers: boolean }) {
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const isBytes = typeof value === "string" && mediaTypeOf(value) !== undefined;
  const takeFile = async (file: File) => {
    setProblem(undefined);
    setDraft(undefined);
    try {
      if (file.name.endsWith(".npy")) onChange(await listsOf(file));
      else if (file.name.endsWith(".json")) onChange(parsed(await file.text()));
      else if (at.schema.takesArrayBytes)
        onChange((await dataUriOf(file)).replace(/^data:[^;,]*/, "data:application/octet-stream"));
      else setProblem("Choose a .npy or .json file.");
    } catch (error) {
      setProblem(`The file cannot be read: ${error instanceof Error ? error.message : String(error)}.`);
    }
  };
  const description =
    problem ?? at.schema.description ?? (takesNumbers ? "Numbers as JSON, or a dropped .npy file." : "JSON.");
  return (
    <Labelled {...at} description={description}>
      <textarea
        {...controlOf(at)}
        class="code"
        rows={3}
        spellcheck={false}
        readOnly={isBytes}
        value={isBytes ? `${sizeText(sizeOf(value))} of bytes` : (draft ?? shownOf(value))}
        onInput={(event) => {
          setDraft(event.currentTarget.value);
          onChange(parsed(event.currentTarget.value));
        }}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          const file = event.dataTransfer?.files[0];
          if (file === undefined) return;
          event.preventDefault();
          takeFile(file);
        }}
      />
      {takesNumbers && (
        <span class="actions">
          <label class="button small">
            Read a file
            <input
              type="file"
              class="unseen"
              aria-label={`${at.label}: read a file`}
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file) takeFile(file);
              }}
            />
          </label>
          {isBytes && (
            <button type="button" class="small" onClick={() => onChange(undefined)}>
              Remove
            </button>
          )}
        </span>
      )}
    </Labelled>
  );
}

async function listsOf(file: File): Promise<Json> {
  const lists = listsOfNpy(new Uint8Array(await file.arrayBuffer()));
  if (lists === undefined) throw new Error("it is not a .npy file");
  return lists;
}

/** Parses JSON. Text that is not JSON stays a string, so that the server's answer explains the fault. */
function parsed(text: string): Value {
  if (text.trim() === "") return undefined;
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
}

function shownOf(value: Value): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
