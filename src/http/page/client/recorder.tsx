/** A button that takes a picture with the camera, or records a sound with the microphone. */
import { useEffect, useRef, useState } from "preact/hooks";
import { writeWav } from "../../../author/audio/wav.ts";
import { sentence } from "./value.ts";

interface RecorderProps {
  readonly device: "camera" | "microphone";
  readonly onTake: (file: Blob) => void;
}

export function Recorder({ device, onTake }: RecorderProps) {
  const [isOpen, setOpen] = useState(false);
  // Only pages loaded over HTTPS or from the same machine may record. A phone's file chooser also offers its camera.
  if (navigator.mediaDevices === undefined) return null;
  if (isOpen) {
    const done = (file: Blob | undefined) => {
      setOpen(false);
      if (file !== undefined) onTake(file);
    };
    return <Recording device={device} onDone={done} />;
  }
  return (
    <button type="button" onClick={() => setOpen(true)}>
      {sentence(device)}
    </button>
  );
}

interface RecordingProps {
  readonly device: RecorderProps["device"];
  /** Called with undefined if the user closed the recorder without a recording. */
  readonly onDone: (file: Blob | undefined) => void;
}

function Recording({ device, onDone }: RecordingProps) {
  const isCamera = device === "camera";
  const video = useRef<HTMLVideoElement>(null);
  const recorder = useRef<MediaRecorder>(null);
  const [isReady, setReady] = useState(false);
  const [seconds, setSeconds] = useState(0);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const opening = navigator.mediaDevices.getUserMedia({ video: isCamera, audio: !isCamera });
    opening.then(
      (stream) => {
        // The camera is ready once it has a picture.
        if (video.current) video.current.srcObject = stream;
        if (isCamera) return;
        recorder.current = new MediaRecorder(stream);
        recorder.current.start();
        setReady(true);
      },
      (error: Error) => setProblem(reasonOf(error, device)),
    );
    const timer = setInterval(() => recorder.current && setSeconds((before) => before + 1), 1000);
    return () => {
      clearInterval(timer);
      opening.then((stream) => stream.getTracks().map((track) => track.stop())).catch(() => {});
    };
  }, [device, isCamera]);
  const finish = () =>
    (isCamera ? pictureOf(video.current) : soundOf(recorder.current)).then(onDone, () =>
      setProblem("The recording is empty: close this and record again."),
    );
  const state = isReady ? (isCamera ? "" : "Recording …") : `Asking for the ${device} …`;
  return (
    <figure class="recorder">
      {isCamera && problem === undefined && (
        <video
          ref={video}
          autoplay
          muted
          playsInline
          aria-label="What the camera sees"
          onLoadedData={() => setReady(true)}
        />
      )}
      <p>
        <span role="status">{problem ?? state}</span> <small>{seconds > 0 && `${seconds} s`}</small>
      </p>
      <div class="row">
        {problem === undefined && (
          <button type="button" disabled={!isReady} onClick={finish}>
            {isCamera ? "Take the picture" : "Stop"}
          </button>
        )}
        <button type="button" onClick={() => onDone(undefined)}>
          Close
        </button>
      </div>
    </figure>
  );
}

function reasonOf({ name, message }: Error, device: RecorderProps["device"]): string {
  if (name === "NotFoundError") return `This device has no ${device}.`;
  return name === "NotAllowedError" ? `The browser does not let this page use the ${device}.` : message;
}

async function pictureOf(video: HTMLVideoElement | null): Promise<Blob | undefined> {
  if (video === null) return undefined;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext("2d")?.drawImage(video, 0, 0);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? undefined), "image/jpeg", 0.92));
}

async function soundOf(recorder: MediaRecorder | null): Promise<Blob | undefined> {
  if (recorder === null) return undefined;
  const recorded = new Promise<Blob>((resolve) => {
    recorder.ondataavailable = ({ data }) => resolve(data);
  });
  // The whole recording comes in one event, because start() was called without an interval.
  recorder.stop();
  return wavOf(await recorded);
}

/** Converts a recorded sound to WAV, which every model can read: 16 bits, the first channel, at the AudioContext's sample rate. */
async function wavOf(recorded: Blob): Promise<Blob> {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await recorded.arrayBuffer());
    const wav = writeWav(sound.getChannelData(0), { rate: sound.sampleRate, channels: 1, encoding: "pcm16" });
    return new Blob([wav], { type: "audio/wav" });
  } finally {
    await context.close();
  }
}
