// From a panel and the answers of Prometheus to Grafana's data frames, with field options and overrides applied.
// Knows what Grafana's Prometheus data source and its field overrides do. Refuses to know how a panel looks.
import {
  FieldType, createTheme, getDisplayProcessor, getFieldDisplayName, getFieldDisplayValuesProxy, standardTransformers,
  standardTransformersRegistry, toDataFrame, transformDataFrame,
} from '@grafana/data';

export const theme = createTheme({ colors: { mode: 'dark' } });

// joinByField is in the list twice, and the registry refuses that.
const seen = new Set();
standardTransformersRegistry.setInit(() =>
  Object.values(standardTransformers)
    .filter((one) => !seen.has(one.id) && seen.add(one.id))
    .map((one) => ({ id: one.id, name: one.name, transformation: one, editor: () => null, aliasIds: one.aliasIds }))
);

const OWN_COLOURS = { timeseries: 'palette-classic', stat: 'thresholds', table: 'thresholds' };

function named(format, labels) {
  return format ? format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, key) => labels[key] ?? '') : JSON.stringify(labels);
}

// A table: one frame for each target, labels as columns in alphabetical order.
function tableFrame(target) {
  const rows = target.result;
  if (!rows.length) return [];
  const names = [...new Set(rows.flatMap((one) => Object.keys(one.metric)))].filter((one) => one !== '__name__').sort();
  const last = (one) => one.value ?? one.values.at(-1);
  const value = target.several ? `Value #${target.refId}` : 'Value';
  return [
    toDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: rows.map((one) => last(one)[0] * 1000), config: {} },
        ...names.map((name) => ({
          name, type: FieldType.string, values: rows.map((one) => one.metric[name] ?? ''), config: { filterable: true },
        })),
        { name: value, type: FieldType.number, values: rows.map((one) => Number(last(one)[1])), config: {} },
      ],
    }),
  ];
}

function seriesFrames(target, range) {
  return target.result.map((one) => {
    const times = [], values = [];
    if (one.values) {
      const at = new Map(one.values.map(([t, v]) => [Math.round(t), v === 'NaN' ? null : Number(v)]));
      for (let t = range.from; t <= range.to; t += range.step) {
        times.push(t * 1000);
        values.push(at.get(Math.round(t)) ?? null);
      }
    } else {
      times.push(one.value[0] * 1000);
      values.push(Number(one.value[1]));
    }
    const name = named(target.legendFormat, one.metric);
    return toDataFrame({
      refId: target.refId,
      name,
      fields: [
        { name: 'Time', type: FieldType.time, values: times, config: { interval: range.step * 1000 } },
        { name: 'Value', type: FieldType.number, values, labels: one.metric, config: { displayNameFromDS: name } },
      ],
    });
  });
}

function put(object, path, value) {
  const keys = path.split('.');
  const last = keys.pop();
  keys.reduce((inner, key) => (inner[key] ??= {}), object)[last] = structuredClone(value);
}

function matches(matcher, name, frame, field) {
  if (matcher.id === 'byName') return name === matcher.options;
  if (matcher.id === 'byRegexp') return new RegExp(matcher.options.slice(1, -1)).test(name);
  if (matcher.id === 'byFrameRefID') return frame.refId === matcher.options;
  throw new Error(`no matcher ${matcher.id}`);
}

// Grafana's interpolation of a link, as far as our links need it: a field's text is what its cell shows, mapped.
function interpolated(text, frame, row, encode = (one) => one) {
  const cells = getFieldDisplayValuesProxy({ frame, rowIndex: row });
  return text
    .replace(/\$\{__data\.fields\.(\w+)\}/g, (_, name) => encode(String(cells[name] ?? '')))
    .replace(/\$\{__url_time_range\}/g, 'from=now-1h&to=now')
    .replace(/&?\$\{\w+:queryparam\}/g, '');
}

function withOptions(frames, config, type) {
  let index = 0;
  for (const frame of frames) {
    for (const field of frame.fields) {
      field.state = { ...(field.state || {}), displayName: null };
      const name = getFieldDisplayName(field, frame, frames);
      const numeric = field.type === FieldType.number;
      const defaults = structuredClone(config.defaults || {});
      if (!numeric) for (const key of ['unit', 'decimals', 'min', 'max', 'thresholds', 'color']) delete defaults[key];
      field.config = { ...defaults, ...field.config, custom: { ...(defaults.custom || {}) } };
      if (numeric) field.config.color ??= { mode: OWN_COLOURS[type] ?? 'thresholds' };
      for (const override of config.overrides || []) {
        if (matches(override.matcher, name, frame, field)) override.properties.forEach((one) => put(field.config, one.id, one.value));
      }
      field.config.custom = {
        drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', showPoints: 'auto',
        pointSize: 5, spanNulls: false, axisPlacement: 'auto', scaleDistribution: { type: 'linear' },
        hideFrom: { tooltip: false, viz: false, legend: false }, ...field.config.custom,
      };
      if (numeric) field.state.seriesIndex = index++;
      field.state.displayName = name;
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
      field.getLinks = ({ valueRowIndex }) =>
        (field.config.links || []).map((one) => ({ href: interpolated(one.url, frame, valueRowIndex, encodeURIComponent), title: interpolated(one.title, frame, valueRowIndex), target: '_self', origin: field }));
    }
  }
  return frames;
}

export function framesOf(panel, answers, range) {
  const table = panel.type === 'table';
  const raw = (panel.targets || []).flatMap((target) => {
    const asked = { ...target, several: panel.targets.length > 1, result: answers[`${panel.id}:${target.refId}`] || [] };
    return table ? tableFrame(asked) : seriesFrames(asked, range);
  });
  return new Promise((done) => {
    const steps = panel.transformations || [];
    if (!steps.length) return done(withOptions(raw, panel.fieldConfig, panel.type));
    transformDataFrame(steps, raw, { interpolate: (text) => text }).subscribe((made) => done(withOptions(made, panel.fieldConfig, panel.type)));
  });
}
