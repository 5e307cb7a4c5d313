import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from '@mantine/core';

const ACCENT: MantineColorsTuple = [
  '#eef5fa',
  '#d8e8f3',
  '#b0d0e6',
  '#85b7d9',
  '#62a3ce',
  '#4b94c5',
  '#3a86b9',
  '#2a719f',
  '#1f6190',
  '#154d76',
];

/** Greys with a little of the accent's hue, each text on its ground with a contrast of at least 4.5. */
const DARK: MantineColorsTuple = [
  '#d3dae2',
  '#b8c2cc',
  '#9ea9b5',
  '#717d8a',
  '#3a434d',
  '#2e363f',
  '#242b33',
  '#1a2027',
  '#151a20',
  '#0f1317',
];

const SYSTEM_FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';

export const theme = createTheme({
  primaryColor: 'accent',
  primaryShade: { light: 8, dark: 7 },
  colors: { accent: ACCENT, dark: DARK },
  fontFamily: SYSTEM_FONT,
  fontFamilyMonospace:
    'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
  headings: { fontFamily: SYSTEM_FONT, fontWeight: '600' },
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    // As a <header> it would be a second banner of the page.
    ModalHeader: { defaultProps: { component: 'div' } },
  },
});

/** Darkens what Mantine's defaults leave under a contrast of 4.5, and sets the colours of outcomes. */
export const cssVariablesResolver: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#55606b',
    '--mantine-color-placeholder': '#66717c',
    '--mantine-color-error': '#b3261e',
    '--mantine-color-anchor': '#1a5c8a',
    '--ground': '#f6f8fa',
    '--latency-p50': '#2a719f',
    '--latency-p99': '#b4690e',
    '--outcome-delivered': '#2b8a5b',
    '--outcome-sent': '#2f7fb8',
    '--outcome-pending': '#9aa5b1',
    '--outcome-inbox': '#6f86c9',
    '--outcome-failed': '#cc3b33',
    '--outcome-gone': '#7a6a5a',
    '--outcome-expired': '#c98a1b',
    '--outcome-superseded': '#8d6cab',
    '--outcome-deleted': '#b3bac2',
  },
  dark: {
    '--mantine-color-dimmed': '#9ea9b5',
    '--mantine-color-placeholder': '#8e99a5',
    '--mantine-color-error': '#ff8f87',
    '--mantine-color-anchor': '#85b7d9',
    '--ground': '#151a20',
    '--latency-p50': '#62a3ce',
    '--latency-p99': '#e0ac4d',
    '--outcome-delivered': '#4cb384',
    '--outcome-sent': '#5aa5d8',
    '--outcome-pending': '#717d8a',
    '--outcome-inbox': '#8d9fe0',
    '--outcome-failed': '#ee6a60',
    '--outcome-gone': '#a8937d',
    '--outcome-expired': '#e0ac4d',
    '--outcome-superseded': '#b294d0',
    '--outcome-deleted': '#4d5863',
  },
});
