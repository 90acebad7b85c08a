// Heatmap and state timeline: Grafana's own panels of these are not on npm, so they are drawn here, and marked.
import React from 'react';
import { formattedValueToString, getFieldDisplayName } from '@grafana/data';

const MARK = 'drawn by ours, not by Grafana';

// A classic histogram's buckets as cells: rows by `le`, which are cumulative.
export function Heatmap({ frames, width, height }) {
  const canvas = React.useRef();
  React.useEffect(() => {
    const pen = canvas.current.getContext('2d');
    pen.clearRect(0, 0, width, height);
    const edge = (name) => (name === '+Inf' ? Infinity : parseFloat(name));
    const rows = frames
      .map((one) => ({ name: getFieldDisplayName(one.fields[1], one, frames), values: one.fields[1].values }))
      .sort((a, b) => edge(a.name) - edge(b.name));
    const cells = rows.map((row, at) => row.values.map((value, x) => Math.max(0, (value || 0) - (at ? rows[at - 1].values[x] || 0 : 0))));
    const most = Math.max(1e-9, ...cells.flat());
    const left = 46, bottom = 14, wide = (width - left) / cells[0].length, high = (height - bottom) / rows.length;
    pen.font = '10px sans-serif';
    cells.forEach((row, at) => {
      const y = height - bottom - (at + 1) * high;
      row.forEach((value, x) => {
        if (value < 1e-9) return;
        const share = Math.sqrt(value / most);
        pen.fillStyle = `hsl(205, ${40 + 50 * share}%, ${18 + 55 * share}%)`;
        pen.fillRect(left + x * wide, y, wide + 0.5, high - 0.5);
      });
      pen.fillStyle = '#9da0a8';
      if (at % Math.ceil(14 / high) === 0) pen.fillText(rows[at].name, 2, y + high);
    });
  }, [frames, width, height]);
  return <><canvas ref={canvas} width={width} height={height} /><span className="ours">{MARK}</span></>;
}

export function Timeline({ frames, width, height }) {
  const left = Math.min(190, width / 3);
  const high = Math.min(34, (height - 14) / frames.length);
  return (
    <>
      <svg width={width} height={height} style={{ fontSize: 11 }}>
        {frames.map((frame, at) => {
          const field = frame.fields[1], count = field.values.length, y = at * high, spans = [];
          let from = 0;
          for (let x = 1; x <= count; x++) {
            if (x === count || field.values[x] !== field.values[from]) { spans.push([from, x, field.values[from]]); from = x; }
          }
          const place = (x) => left + ((width - left) * x) / count;
          return (
            <g key={at}>
              <text x={2} y={y + high / 2 + 4} fill="#ccccdc">{getFieldDisplayName(field, frame, frames)}</text>
              {spans.filter((one) => one[2] != null).map(([x, until, value]) => {
                const shown = field.display(value), wide = place(until) - place(x);
                return (
                  <g key={x}>
                    <rect x={place(x)} y={y + 2} width={wide} height={high - 4} fill={shown.color} />
                    {wide > 44 && <text x={place(x) + 4} y={y + high / 2 + 4} fill="#fff" stroke="#000" strokeWidth="2" paintOrder="stroke">{formattedValueToString(shown)}</text>}
                  </g>
                );
              })}
            </g>
          );
        })}
      </svg>
      <span className="ours">{MARK}</span>
    </>
  );
}
