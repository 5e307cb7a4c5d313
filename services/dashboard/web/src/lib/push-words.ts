import type { PushHead } from '../api/types.ts';

/** Describes who sent a push: the API key's last four characters, or the operator's name. */
export function describeSender(by: PushHead['by']): string {
  if (by === undefined) return '–';
  return 'key' in by ? `Key …${by.key}` : by.operator;
}
