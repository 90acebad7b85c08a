// Draws one dashboard, whose panels and answers stand in window.__DATA__, with Grafana's own components. window.__DRAWN__ is the number
// of panels that are drawn; each stands in an element with its title and type, so that a test can read it.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { dateTime, getFieldDisplayValues } from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, Table, ThemeContext, TimeSeries } from '@grafana/ui';
import { framesOf, theme } from './frames';
import { Heatmap, Timeline } from './own';

const WIDTH = window.innerWidth - 32, GAP = 8, ROW = 30;
const { title, variables, panels, answers, annotations, range } = window.__DATA__;
window.__DRAWN__ = 0;
window.__BROKEN__ = [];
window.__MARKED__ = {};

function place({ x, y, w, h }) {
  const column = (WIDTH + GAP) / 24;
  return { position: 'absolute', left: x * column, top: y * (ROW + GAP), width: w * column - GAP, height: h * (ROW + GAP) - GAP };
}

const timeRange = { from: dateTime(range.from * 1000), to: dateTime(range.to * 1000), raw: { from: 'now-1h', to: 'now' } };

function Stats({ panel, frames, width, height }) {
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text, theme, data: frames, timeZone: 'utc',
  });
  return (
    <div style={{ display: 'flex', gap: 6 }}>
      {values.map((one, at) => (
        <div key={at} data-tile={one.display.title}>
          <BigValue value={one.display} theme={theme} width={width / values.length - 6} height={height} colorMode={panel.options.colorMode}
            graphMode="none" justifyMode="auto" textMode={panel.options.textMode} />
        </div>
      ))}
    </div>
  );
}

// Alerts and changes, as Grafana's own plugin draws them: a dashed line where each begins and ends, what lies between them tinted, and
// its bar below the axis. That plugin is not on npm: these are ours.
function Marks({ config, of }) {
  React.useLayoutEffect(() => {
    config.addHook('draw', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      window.__MARKED__[of] = 0;
      for (const one of annotations) {
        const colour = theme.visualization.getColorByName(one.colour);
        const [from, to] = [one.from, one.to].map((at) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(at * 1000, 'x', true))));
        ctx.fillStyle = ctx.strokeStyle = colour;
        ctx.globalAlpha = 0.1;
        ctx.fillRect(from, bbox.top, to - from, bbox.height);
        ctx.globalAlpha = 1;
        ctx.fillRect(from, bbox.top + bbox.height, Math.max(3, to - from), 4);
        ctx.setLineDash([5, 5]);
        for (const x of [from, to]) { ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke(); }
        window.__MARKED__[of] += 1;
      }
      ctx.restore();
    });
  }, [config]);
  return null;
}

function inside(panel, frames, width, height) {
  if (!frames.length || frames.every((one) => one.length === 0)) return <div className="nothing">{panel.fieldConfig.defaults.noValue}</div>;
  const size = { frames, width, height };
  if (panel.type === 'timeseries') {
    return <TimeSeries {...size} structureRev={1} timeRange={timeRange} timeZone="utc" legend={panel.options.legend} options={panel.options}>{(config) => <Marks config={config} of={panel.title} />}</TimeSeries>;
  }
  if (panel.type === 'table') {
    return <Table data={frames[0]} width={width} height={height} columnMinWidth={panel.fieldConfig.defaults.custom?.minWidth ?? 150}
      initialSortBy={panel.options.sortBy} cellHeight={panel.options.cellHeight} showTypeIcons={false} timeRange={timeRange} fieldConfig={panel.fieldConfig} resizable />;
  }
  if (panel.type === 'heatmap') return <Heatmap {...size} />;
  if (panel.type === 'state-timeline') return <Timeline {...size} />;
  if (panel.type === 'stat') return <Stats panel={panel} {...size} />;
  throw new Error(`no panel of type ${panel.type}`);
}

class Guard extends React.Component {
  state = {};
  static getDerivedStateFromError(error) { return { error }; }
  componentDidCatch(error) { window.__BROKEN__.push(`${this.props.title}: ${error.stack || error}`); }
  render() { return this.state.error ? <pre>{String(this.state.error)}</pre> : this.props.children; }
}

function Panel({ panel }) {
  const [frames, setFrames] = React.useState(null);
  React.useEffect(() => { framesOf(panel, answers, range).then(setFrames, (error) => window.__BROKEN__.push(`${panel.title}: ${error.stack}`)); }, []);
  React.useEffect(() => { if (frames) window.__DRAWN__ += 1; }, [frames]);
  const at = place(panel.gridPos);
  return (
    <div style={at} data-panel={panel.title} data-type={panel.type}>
      <Guard title={panel.title}>
        <PanelChrome title={panel.title} description={panel.description} width={at.width} height={at.height} padding={panel.type === 'table' ? 'none' : 'sm'}>
          {(width, height) => frames && inside(panel, frames, width, height)}
        </PanelChrome>
      </Guard>
    </div>
  );
}

const drawn = panels.filter((one) => one.type !== 'row');
const height = Math.max(...panels.map((one) => one.gridPos.y + one.gridPos.h)) * (ROW + GAP);
window.__PANELS__ = drawn.length;
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div className="bar"><b>{title}</b><div>{Object.entries(variables).map(([name, value]) => <span key={name}>{name}: {value}</span>)}</div></div>
    <div style={{ position: 'relative', margin: '0 16px', height }}>
      {panels.map((one) => (one.type === 'row' ? <div key={one.id} className="row" style={place(one.gridPos)}>{one.title}</div> : <Panel key={one.id} panel={one} />))}
    </div>
  </ThemeContext.Provider>
);
