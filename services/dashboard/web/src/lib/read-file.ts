/** A file as the API takes it. */
export interface FileField {
  name: string;
  base64: string;
}

/** Reads a file that was chosen or dropped. */
export async function readFileField(file: File): Promise<FileField> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  return { name: file.name, base64: btoa(binary) };
}
