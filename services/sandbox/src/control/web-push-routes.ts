import { z } from 'zod';
import { addSimulatedBrowser, type SimulatedBrowserDeps } from '../web-push/simulated-browser.ts';
import { Refused, type Route, readJson } from './route.ts';

const wanted = z.strictObject({
  /** The only VAPID key that may push to it, base64url; absent: every one. */
  applicationServerKey: z.string().max(200).optional(),
});

/** Browsers that are made on demand. */
export function webPushRoutes(deps: SimulatedBrowserDeps): Route[] {
  return [
    {
      method: 'POST',
      path: /^\/web-push\/subscriptions$/,
      handle: async ({ request }) => {
        const { applicationServerKey } = await readJson(request, wanted);
        return addSimulatedBrowser(deps, applicationServerKey?.replaceAll('=', ''));
      },
    },
    {
      method: 'DELETE',
      path: /^\/web-push\/subscriptions\/(?<id>[\w-]+)$/,
      handle: ({ params: { id = '' } }) => {
        if (!deps.subscriptions.end(id)) throw new Refused(404, `There is no subscription ${id}.`);
        return {};
      },
    },
  ];
}
