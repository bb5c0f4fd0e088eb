/** Shows an output by its type: as a number, text, file, chart, table or JSON. */
import type { JSX } from "preact";
import { isObject, type Json } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { Media } from "./media.tsx";
import { Plot, Table } from "./numbers.tsx";
import { firstText, isFile, isList, isNumbers, isPicture, type JsonObject, numberText, titleOf } from "./value.ts";

interface OutputProps {
  readonly schema: SchemaNode | undefined;
  readonly value: Json;
  readonly label: string;
  /** The picture in the input, which is laid over a picture in the output for comparison; undefined without one. */
  readonly picture?: string | undefined;
}

/** Maximum numbers of a bar chart. A longer list becomes a plot. */
const MAX_BARS = 24;
/** Maximum items to show of a list with files. */
const MAX_ITEMS = 100;
/** Maximum characters of a text in large letters, and of JSON. */
const [MAX_STAT, MAX_JSON] = [40, 100_000];

export function Output({ schema, value, label, picture }: OutputProps): JSX.Element {
  if (typeof value === "string") {
    const isImage = /^https?:/.test(value) && schema?.file?.mediaTypes.every((type) => type.startsWith("image/"));
    if (!isImage && !isPicture(value) && !isFile(value)) {
      return <p class={value.length < MAX_STAT ? "stat" : "prose"}>{value}</p>;
    }
    const before = picture === value ? undefined : picture;
    return <Media key={value} url={value} label={label} before={before} saveAs={label.replaceAll(" ", "-")} />;
  }
  if (typeof value === "number") return <p class="stat">{numberText(value)}</p>;
  if (typeof value === "boolean") return <p class="stat">{value ? "Yes" : "No"}</p>;
  if (value === null) return <p class="about">nothing</p>;
  if (isNumbers(value) && value.length > MAX_BARS) return <Plot values={value} label={label} />;
  if (isNumbers(value) || isScores(value)) {
    const rows = Object.entries(value).map(([name, value]) => ({ name, value }));
    return <Table rows={rows} label={label} hasBars />;
  }
  if (isList(value) && firstText(value, isFile) !== undefined) {
    return (
      <ol class="items grid">
        {value.slice(0, MAX_ITEMS).map((each, i) => (
          <li key={i}>
            <Output schema={schema?.items} value={each} label={`${label} ${i + 1}`} />
          </li>
        ))}
        {value.length > MAX_ITEMS && <li class="about">and {value.length - MAX_ITEMS} more</li>}
      </ol>
    );
  }
  if (isList(value) && value.length > 0 && value.every(isRow)) return <Table rows={value} label={label} />;
  if (!isObject(value)) return <pre>{JSON.stringify(value, null, 2).slice(0, MAX_JSON)}</pre>;
  const members = Object.entries(value).filter(([name]) => !schema?.fields.get(name)?.isHidden);
  return (
    <dl class="members stack">
      {members.map(([name, member]) => {
        const field = schema?.fields.get(name);
        const title = field?.title ?? titleOf(name);
        return (
          <div key={name}>
            <dt>{title}</dt>
            <dd>
              <Output schema={field} value={member} label={title} picture={picture} />
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function isScores(value: Json): value is Readonly<Record<string, number>> {
  if (!isObject(value)) return false;
  const members = Object.values(value);
  const isShare = (each: unknown) => typeof each === "number" && each >= 0 && each <= 1;
  return members.length > 2 && members.length <= MAX_BARS && members.every(isShare);
}

/** Whether a value is an object without lists and objects inside. */
function isRow(value: Json): value is JsonObject {
  return isObject(value) && Object.values(value).every((each) => each === null || typeof each !== "object");
}
