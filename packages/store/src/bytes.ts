import type { Binary } from 'mongodb';

/** A stored binary as bytes; absent ones are empty. */
export function bytesOf(binary: Binary | undefined): Uint8Array {
  if (binary === undefined) return new Uint8Array(0);
  return binary.buffer.subarray(0, binary.position);
}

/** Numbers as 4 bytes each, little endian, whatever the machine's own order. */
export function packNumbers(numbers: Uint32Array): Buffer {
  const packed = Buffer.alloc(numbers.length * 4);
  for (const [index, value] of numbers.entries()) packed.writeUInt32LE(value, index * 4);
  return packed;
}

/** One number of {@link packNumbers}; 0 where there is none. */
export function numberAt(binary: Binary | undefined, index: number): number {
  const bytes = bytesOf(binary);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return view.byteLength >= index * 4 + 4 ? view.getUint32(index * 4, true) : 0;
}
