/** Path of the image addon; in a compiled executable the file is inside it. */
declare module "#pixels" {
  const path: string;
  export default path;
}
