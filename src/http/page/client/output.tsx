/** Shows an output by its type: as a number, text, file, chart, table or JSON. */
import type { JSX } from "preact";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";
import { familyOf } from "./file-field.tsx";
import { Media } from "./media.tsx";
import { Bars, Plot } from "./numbers.tsx";
import { isTable, Table } from "./table.tsx";
import { firstText, isFile, isList, isNumbers, isObject, isPicture, type Json, numberText, titleOf } from "./value.ts";

interface OutputProps {
  readonly schema: SchemaNode | undefined;
  readonly value: Json;
  readonly label: string;
  /** The picture in the input, which is laid over a picture in the output for comparison; undefined without one. */
  readonly picture?: string | undefined;
}

/** Maximum numbers of a list that are shown as bars. Longer lists are shown as a plot. */
const MAX_BARS = 24;
/** Maximum items that are shown of a list with files. */
const MAX_ITEMS = 100;
/** Maximum characters of a text that is shown large, and of JSON. */
const [MAX_STAT, MAX_JSON] = [40, 100_000];

export function Output(props: OutputProps): JSX.Element {
  const { schema, value, label, picture } = props;
  if (typeof value === "string") return <Text {...props} value={value} />;
  if (typeof value === "number") return <p class="stat">{numberText(value)}</p>;
  if (typeof value === "boolean") return <p class="stat">{value ? "Yes" : "No"}</p>;
  if (value === null) return <p class="about">nothing</p>;
  if (isNumbers(value)) {
    const entries = [...value.entries()];
    return value.length > MAX_BARS ? <Plot values={value} label={label} /> : <Bars entries={entries} label={label} />;
  }
  if (isScores(value)) return <Bars entries={Object.entries(value)} label={label} />;
  if (isList(value) && firstText(value, isFile) !== undefined) {
    const [shown, more] = [value.slice(0, MAX_ITEMS), value.length - MAX_ITEMS];
    return (
      <ol class="items grid">
        {shown.map((each, i) => (
          <li key={i}>
            <Output schema={schema?.items} value={each} label={`${label} ${i + 1}`} />
          </li>
        ))}
        {more > 0 && <li class="about">and {more} more</li>}
      </ol>
    );
  }
  if (isTable(value)) return <Table rows={value} label={label} />;
  if (!isObject(value)) return <pre>{JSON.stringify(value, null, 2).slice(0, MAX_JSON)}</pre>;
  const members = Object.entries(value)
    .map(([name, each]) => ({ name, value: each, schema: schema?.fields.get(name) }))
    .filter((member) => member.schema?.isHidden !== true);
  return (
    <dl class="members stack">
      {members.map(({ name, ...member }) => {
        const title = member.schema?.title ?? titleOf(name);
        return (
          <div key={name}>
            <dt>{title}</dt>
            <dd>
              <Output {...member} label={title} picture={picture} />
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
  const isShare = (each: Json) => typeof each === "number" && each >= 0 && each <= 1;
  return members.length > 2 && members.length <= MAX_BARS && members.every(isShare);
}

function Text({ value, label, picture, schema }: OutputProps & { readonly value: string }) {
  const isImage =
    isPicture(value) || (schema?.file !== undefined && familyOf(schema.file) === "image" && /^https?:/.test(value));
  if (!isImage && !isFile(value)) return <p class={value.length < MAX_STAT ? "stat" : "prose"}>{value}</p>;
  const before = picture === value ? undefined : picture;
  const saveAs = label.toLowerCase().replaceAll(" ", "-");
  return <Media key={value} url={value} {...{ label, before, saveAs }} isPicture={isImage} />;
}
