import type { Device } from '../api/types.ts';

/** Describes what keeps a device from getting pushes. */
export function describeDevice({
  uninstalled,
  unsubscribed,
}: Pick<Device, 'uninstalled' | 'unsubscribed'>): string {
  if (uninstalled === true) return 'The app is uninstalled';
  return unsubscribed === true ? 'The browser has unsubscribed' : '–';
}
