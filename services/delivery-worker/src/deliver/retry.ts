const FIRST_MS = 1_000;
const MOST_MS = 600_000;
/** Somebody who says more than this is believed, but asked again once a day. */
const MOST_ASKED_FOR_MS = 86_400_000;
/** Share of a wait that was asked for by which tries are spread, so that they don't all come back at once. */
const SPREAD = 0.1;

/**
 * The one schedule of all providers (guarantee G16): what Retry-After says and a little more, else full jitter
 * below a ceiling that doubles from a second to ten minutes. Whether a push may still be sent is asked elsewhere.
 *
 * @param retries how often the provider has put this off already
 * @param afterMs what the provider asked for
 * @param random from 0 to 1
 */
export function retryDelayMs(
  retries: number,
  afterMs: number | undefined,
  random: () => number,
): number {
  if (afterMs !== undefined) {
    return Math.round(Math.min(afterMs, MOST_ASKED_FOR_MS) * (1 + random() * SPREAD));
  }
  return Math.round(random() * Math.min(MOST_MS, FIRST_MS * 2 ** Math.min(retries, 20)));
}
