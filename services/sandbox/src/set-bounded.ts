/**
 * Sets an entry of a map, and removes the oldest entry if the map has more than `max` then.
 *
 * @returns the value of the removed entry
 */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): V | undefined {
  map.set(key, value);
  const oldest = map.entries().next();
  if (map.size <= max || oldest.done === true) return undefined;
  const [oldestKey, removed] = oldest.value;
  map.delete(oldestKey);
  return removed;
}
