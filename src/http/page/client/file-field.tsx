/** A field for a file that the user drops, pastes, chooses or records, or whose URL the user types. Files become data URIs. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { FileMark } from "../../../base/schemas/json-schema.ts";
import { authorsWords, familyOf, nounOf } from "./file-kind.ts";
import { controlOf, type FieldProps, Labelled } from "./labelled.tsx";
import { Media } from "./media.tsx";
import { Recorder, type RecorderKind } from "./recorder.tsx";
import { isPicture } from "./value.ts";

/** Milliseconds without typing after which the file of a typed URL is shown. */
const PAUSE_MS = 800;

export function FileField({ value, onChange, file, ...at }: FieldProps & { readonly file: FileMark }) {
  const zone = useRef<HTMLFieldSetElement>(null);
  const [isOver, setOver] = useState(false);
  const [recording, setRecording] = useState<RecorderKind>();
  const [named, setNamed] = useState<{ readonly url: string; readonly name: string }>();
  const url = typeof value === "string" ? value : "";
  const isData = url.startsWith("data:");
  const typed = useSettled(url);
  const take = async (taken: Blob | undefined) => {
    if (taken === undefined) return;
    const taking = await dataUriOf(taken);
    setNamed(taken instanceof File ? { url: taking, name: taken.name } : undefined);
    onChange(taking);
  };
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const pasted = event.clipboardData?.files[0];
      const target = event.target instanceof Element ? event.target.closest(".file") : null;
      // A file that is pasted outside all file fields goes to the first file field.
      if (pasted === undefined || (target ?? document.querySelector(".file")) !== zone.current) return;
      event.preventDefault();
      latest.current(pasted);
    };
    document.addEventListener("paste", paste);
    return () => document.removeEventListener("paste", paste);
  }, []);
  const noun = nounOf(file);
  const isImage = familyOf(file) === "image";
  const shownUrl = isData || (typed.value === url && hasCompleteHost(url)) ? url : "";
  const faults =
    url === ""
      ? at.faults.map((fault) => (fault.pointer === at.pointer ? { ...fault, detail: `Choose ${noun}.` } : fault))
      : at.faults;
  const description = authorsWords(at.schema.description, file) ?? `Drop, paste or choose ${noun}, or give its URL.`;
  const devices = navigator.mediaDevices === undefined ? [] : recordersFor(familyOf(file));
  return (
    <Labelled {...at} faults={faults} description={description}>
      <fieldset
        ref={zone}
        class={`file ${isOver ? "over" : ""}`}
        aria-label={at.label}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          const dropped = event.dataTransfer?.files[0];
          if (dropped) take(dropped);
          else onChange(event.dataTransfer?.getData("text/uri-list") || value);
        }}
      >
        {recording !== undefined ? (
          <Recorder
            kind={recording}
            onDone={(blob) => {
              setRecording(undefined);
              take(blob);
            }}
          />
        ) : (
          shownUrl !== "" && (
            <Media
              url={shownUrl}
              label={at.label}
              name={named?.url === url ? named.name : undefined}
              isPicture={isPicture(url) || (isImage && !isData)}
            />
          )
        )}
        {url === "" && recording === undefined && <p class="drop-hint">Drop {noun} here</p>}
        <div class="actions">
          <label class="button small">
            {url === "" ? `Choose ${noun}` : "Replace"}
            <input
              type="file"
              class="unseen"
              accept={file.mediaTypes.join()}
              aria-label={`${at.label}: choose ${noun}`}
              onChange={(event) => {
                take(event.currentTarget.files?.[0]);
                event.currentTarget.value = "";
              }}
            />
          </label>
          {recording === undefined &&
            devices.map(({ kind, label }) => (
              <button type="button" class="small" key={kind} onClick={() => setRecording(kind)}>
                {label}
              </button>
            ))}
          {isData && (
            <button type="button" class="small" onClick={() => onChange(undefined)}>
              Remove
            </button>
          )}
        </div>
        <input
          {...controlOf(at)}
          type="url"
          placeholder={isData ? "or the URL of another" : "https://…"}
          value={isData ? "" : url}
          onInput={(event) => {
            typed.begin();
            onChange(event.currentTarget.value || (isData ? value : undefined));
          }}
          onBlur={typed.end}
        />
      </fieldset>
    </Labelled>
  );
}

/** A hook whose `value` is `text`, delayed while the user types. */
function useSettled(text: string) {
  const isTyping = useRef(false);
  const [value, setValue] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setValue(text), isTyping.current ? PAUSE_MS : 0);
    return () => clearTimeout(timer);
  }, [text]);
  return {
    value,
    begin: () => {
      isTyping.current = true;
    },
    end: () => {
      isTyping.current = false;
      setValue(text);
    },
  };
}

/** Whether the text is an HTTP URL whose host looks complete. The host of `https://in` does not. */
function hasCompleteHost(text: string): boolean {
  const { protocol = "", hostname = "" } = URL.parse(text) ?? {};
  return /^https?:$/.test(protocol) && /\.[^.]|^localhost$|^\[/.test(hostname);
}

function recordersFor(family: string | undefined): { readonly kind: RecorderKind; readonly label: string }[] {
  if (family === "image") return [{ kind: "camera", label: "Camera" }];
  return family === "audio" ? [{ kind: "microphone", label: "Microphone" }] : [];
}

export function dataUriOf(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
