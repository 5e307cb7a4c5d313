import { FITTED_LINKS, gatewayMb } from './capacity.ts';
import { type Costs, groupPush, singleAt } from './costs.ts';
import type { LoadPoint, Measured, Resources } from './measured.ts';

/** A measured point that no cost was fitted to. */
export interface CheckedPoint {
  what: string;
  unit: string;
  measured: number;
  predicted: number;
  /** (predicted − measured) / measured. */
  error: number;
}

/** Errors within it are accepted. */
export const MAX_ERROR = 0.25;

const CPU_OF = ['api', 'delivery-worker', 'device-gateway', 'redis', 'presence', 'mongodb'];

/** Predicts the points of the measuring runs that were not used for the fit. */
export function checkModel(measured: Measured, costs: Costs): CheckedPoint[] {
  const { points } = measured.deliveries;
  const compare = (name: string, what: string, predict: (point: LoadPoint) => Resources) => {
    const point = points[name];
    if (point === undefined) throw new Error(`no load was measured that is called ${name}`);
    return toPoint(what, 'ms', sumCpu(point.used), sumCpu(predict(point)));
  };
  const group = ({ recipients = 0, gateways = 0 }: LoadPoint) =>
    groupPush(costs, { connected: recipients, offline: 0, gateways });
  const memory = measured.links.gatewayMb.slice(FITTED_LINKS).map(({ links, mb }) => {
    const what = `memory of a gateway with ${links.toLocaleString('en')} connections`;
    return toPoint(what, 'MB', mb, gatewayMb(measured, links));
  });
  return [
    compare('single at 300/s', 'CPU of a push to one device, 300 a second', ({ perSecond = 0 }) =>
      singleAt(costs, perSecond),
    ),
    compare('group of 100', 'CPU of a push to 100 devices on eight gateways', group),
    compare('push to 50000', 'CPU of a push to 50,000 devices on eight gateways', group),
    ...memory,
  ];
}

/** Sums the CPU of all services and servers, in ms. */
function sumCpu(used: Resources): number {
  return CPU_OF.reduce((sum, name) => sum + (used[`${name} cpu`] ?? 0), 0) / 1_000;
}

function toPoint(what: string, unit: string, measured: number, predicted: number): CheckedPoint {
  return { what, unit, measured, predicted, error: (predicted - measured) / measured };
}
