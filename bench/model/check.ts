import { FITTED_POINTS, gatewayMb } from './capacity.ts';
import { type Costs, FITTED, groupPush, singleAt } from './costs.ts';
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

/**
 * Half of two cores for the second in which a receipt must arrive; the simulated devices need the rest. A push that
 * takes more CPU overloads the measuring machine: receipts arrive late, and cost an inbox row, which the model leaves out.
 */
const OVERLOAD_MS = 1_000;

/** Predicts the points of the measuring runs that were not used for the fit and did not overload the machine. */
export function checkModel(measured: Measured, costs: Costs): CheckedPoint[] {
  const memory = measured.links.gatewayMb.slice(FITTED_POINTS).map(({ links, mb }) => {
    const what = `memory of a gateway with ${links.toLocaleString('en')} connections`;
    return toPoint(what, 'MB', mb, gatewayMb(measured, links));
  });
  const single = pointOf(measured, 'single at 300/s');
  const singleUsed = singleAt(costs, single.perSecond ?? 0);
  const name = 'CPU of a push to one device, 300 a second';
  return [
    toPoint(name, 'ms', sumCpu(single.used), sumCpu(singleUsed)),
    checkGroup(measured, costs, 'group of 100'),
    ...checkLarge(measured, costs).filter(({ predicted }) => predicted <= OVERLOAD_MS),
    ...memory,
  ];
}

/** Predicts the pushes that overloaded the measuring machine. */
export function compareOverload(measured: Measured, costs: Costs): CheckedPoint[] {
  return checkLarge(measured, costs).filter(({ predicted }) => predicted > OVERLOAD_MS);
}

function checkLarge(measured: Measured, costs: Costs): CheckedPoint[] {
  return Object.keys(measured.deliveries.points)
    .filter((name) => name.startsWith('push to ') && name !== FITTED.batches)
    .map((name) => checkGroup(measured, costs, name));
}

function checkGroup(measured: Measured, costs: Costs, name: string): CheckedPoint {
  const { recipients = 0, gateways = 0, perSecond = 0, used } = pointOf(measured, name);
  const predicted = groupPush(costs, { connected: recipients, offline: 0, gateways, perSecond });
  const what = `CPU of a push to ${recipients.toLocaleString('en')} devices on eight gateways`;
  return toPoint(what, 'ms', sumCpu(used), sumCpu(predicted));
}

function pointOf({ deliveries }: Measured, name: string): LoadPoint {
  const point = deliveries.points[name];
  if (point === undefined) throw new Error(`no load was measured that is called ${name}`);
  return point;
}

/** Sums the CPU of all services and servers, in ms. */
function sumCpu(used: Resources): number {
  return CPU_OF.reduce((sum, name) => sum + (used[`${name} cpu`] ?? 0), 0) / 1_000;
}

function toPoint(what: string, unit: string, measured: number, predicted: number): CheckedPoint {
  return { what, unit, measured, predicted, error: (predicted - measured) / measured };
}
